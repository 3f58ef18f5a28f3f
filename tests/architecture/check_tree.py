"""check_tree.py ROOT: prints every violation of rules.py in the tree and exits 1 when there is one."""

import sys

import rules

violations = rules.check(sys.argv[1])
for violation in violations:
    print(violation)
print(f"{len(violations)} violations")
sys.exit(1 if violations else 0)
