"""The case runner itself: every way in which a command can miss what its case foresees is a failure."""

import unittest

import run_case


def failures_of(text):
    return run_case.run(run_case.parse(text), "/bin/true")


class Runner(unittest.TestCase):
    def test_passes_what_is_foreseen(self):
        self.assertEqual(failures_of("# words\n$ echo a; echo b >&2; exit 3\na\n! b\n= 3\n"), [])

    def test_catches_status_output_and_errors(self):
        for text in ("$ exit 1\n", "$ true\n= 1\n", "$ echo b\na\n", "$ echo a; echo b\na\n", "$ true\na\n", "$ echo a >&2\n", "$ true\n! a\n", "$ false | true\n"):
            self.assertEqual(len(failures_of(text)), 1, text)

    def test_placeholders(self):
        self.assertEqual(failures_of("$ echo 'loss -1.5e-07 of x'\nloss <n> of ...\n"), [])
        self.assertEqual(len(failures_of("$ echo 'loss nan'\nloss <n>\n")), 1)
        self.assertEqual(failures_of("$ seq 9\n1\n...\n8\n9\n"), [])
        self.assertEqual(len(failures_of("$ seq 9\n1\n...\n8\n")), 1)

    def test_numbers_of_a_column_may_be_wide(self):
        self.assertEqual(failures_of("$ echo 'rank      1.5  2'\nrank       <n>  2\n"), [])
        self.assertEqual(failures_of("$ echo 'a 1   b'\na <n>  b\n"), [])
        self.assertEqual(len(failures_of("$ echo 'a  1 b'\na <n> b\n")), 1)
        self.assertEqual(len(failures_of("$ echo 'a1 b'\na  <n> b\n")), 1)

    def test_lines_of_progress_do_not_count_on_standard_error(self):
        self.assertEqual(failures_of("$ echo 'training: 3/12 (25%), 9s left, epoch 0.1' >&2\n"), [])
        self.assertEqual(len(failures_of("$ echo 'training: 3/12 (25%), 9s left'\n")), 1)
        self.assertEqual(len(failures_of("$ echo 'training: 3/12 and 9s left' >&2\n")), 1)

    def test_text_is_no_pattern(self):
        self.assertEqual(len(failures_of("$ echo abc\na.c\n")), 1)

    def test_digests_agree_over_the_case(self):
        same, other = "0" * 32, "f" * 32
        self.assertEqual(failures_of(f"$ echo {same}\n<digest:A>\n$ echo {same}\n<digest:A>\n$ echo {other}\n<digest:not A>\n"), [])
        self.assertEqual(len(failures_of(f"$ echo {same}\n<digest:A>\n$ echo {other}\n<digest:A>\n")), 1)
        self.assertEqual(len(failures_of(f"$ echo {same}\n<digest:A>\n$ echo {same}\n<digest:not A>\n")), 1)
        self.assertEqual(len(failures_of("$ echo 12\n<digest:A>\n")), 1)

    def test_commands_share_a_folder_and_may_span_lines(self):
        self.assertEqual(failures_of("$ echo a > file\n$ cat file |\n> tr a b\nb\n"), [])

    def test_blank_lines_do_not_count(self):
        self.assertEqual(failures_of("$ echo a; echo; echo b\n\na\nb\n"), [])

    def test_stops_at_the_first_failure(self):
        self.assertEqual(len(failures_of("$ exit 1\n$ exit 1\n")), 1)

    def test_a_case_that_lacks_what_it_needs_says_so(self):
        self.assertEqual(run_case.missing("? echo no such unit\n$ true\n", "/bin/true"), "no such unit")
        self.assertEqual(run_case.missing("? true\n$ echo a\na\n", "/bin/true"), "")
        self.assertRaises(ValueError, run_case.missing, "? no-such-command\n$ true\n", "/bin/true")
        self.assertRaises(ValueError, run_case.missing, "? exit 3\n$ true\n", "/bin/true")
        self.assertEqual(failures_of("? echo no\n$ echo a\na\n"), [])

    def test_refuses_a_case_without_commands(self):
        self.assertRaises(ValueError, run_case.parse, "# nothing\n")
        self.assertRaises(ValueError, run_case.parse, "text\n")


if __name__ == "__main__":
    unittest.main()
