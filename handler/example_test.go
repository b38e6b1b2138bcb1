package handler_test

import (
	"context"
	"fmt"
	"os"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/handler/exec"
)

// A program is started for every delivery: its exit code is the verdict, and the last
// line of its stderr the reason.
func Example() {
	l, err := handler.NewLauncher()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	h := exec.New(exec.Config{
		Launcher: l, Stdout: handler.NewOutput(os.Stdout, nil),
		Command: `read -r to; [ "$to" != nobody ] || { echo "no such address" >&2; exit 65; }; echo "mail to $to"`,
	})
	for _, to := range []string{"ann", "nobody"} {
		d := &pawl.Delivery{Message: pawl.Message{ID: to, Topic: "mail", Body: []byte(to + "\n")}, Attempt: 1}
		if err := h.Handle(context.Background(), d); err != nil {
			fmt.Println(pawl.Describe(err).Class, "failure:", err)
		}
	}
	// Output:
	// mail to ann
	// permanent failure: no such address (exit status 65)
}
