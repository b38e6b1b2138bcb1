// Package exec is a handler that starts a program for every delivery: the body is
// on its stdin, the rest in its environment (PAWL_ID, PAWL_TOPIC, PAWL_KEY …), and
// its exit code is the verdict:
//
//   - 0: done;
//   - 65: never again, it becomes a dead letter;
//   - 69: not now, it is given back;
//   - any other: failed, and the policy decides. The reason is the last line that
//     the program wrote to stderr.
//
// An example:
//
//	l, err := handler.NewLauncher()
//	…
//	defer l.Close()
//	h := exec.New(exec.Config{Launcher: l, Command: "./send-mail"})
package exec
