// What a command prints must arrive: a full disk or a closed stream behind standard output makes every command fail.
//
//   int main(int argc, char** argv) {
//     occupy_standard_streams();
//     return status_with_output(run(argc, argv));
//   }
//
//   millrace: standard output could not be written: No space left on device; what arrived of it is not complete
#pragma once

namespace millrace {

// What is known of a loss before the end.
struct OutputLoss {
  bool said = false;
  int reason = 0;  // an errno
};

// A closed standard stream must not become the number of the next file that is opened: it becomes one that cannot be used.
void occupy_standard_streams();

// To be called last. `status`, or 1 when anything printed was lost: then it is said, unless somebody has said it already.
int status_with_output(int status, OutputLoss loss = {});
// Whether something printed so far was lost; what is still buffered does not count.
bool output_was_lost();

}  // namespace millrace
