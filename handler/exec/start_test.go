package exec

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

// What a machine lacks is no failure of a message: it is given back, and the reason says what is missing.
func TestStartErrors(t *testing.T) {
	for _, why := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM} {
		err := startError(&os.PathError{Op: "fork/exec", Path: "/bin/sh", Err: why})
		r, ok := errors.AsType[*pawl.ReleaseError](err)
		want := "start the program: fork/exec /bin/sh: " + why.Error()
		if !ok || r.Reason != want || r.After != releaseFor {
			t.Errorf("%v: %#v, want %s", why, err, want)
		}
	}
	if d := pawl.Describe(startError(fmt.Errorf("x: %w", syscall.E2BIG))); d.Class != pawl.ClassPermanent {
		t.Errorf("headers that do not fit: %+v", d)
	}
	err := startError(syscall.ENOENT)
	if _, ok := errors.AsType[*pawl.ReleaseError](err); ok || pawl.Describe(err).Kind != policy.KindCommand {
		t.Errorf("no shell: %v", err)
	}
}
