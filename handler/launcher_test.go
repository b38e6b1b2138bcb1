package handler_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/handler"
)

// asMortal, in the environment of this test binary, makes it a process that runs
// the program in it, waits, and is killed.
const asMortal = "PROGRAM_TEST_MORTAL"

func TestMain(m *testing.M) {
	if mode := os.Getenv(asWorker); mode != "" {
		work(mode)
		return
	}
	command := os.Getenv(asMortal)
	if command == "" {
		os.Exit(m.Run())
	}
	l, err := handler.NewLauncher()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Stdin, _, _ = os.Pipe()
	if _, err := l.Start(cmd); err != nil {
		panic(err)
	}
	fmt.Println("the guard knows of the program")
	select {}
}

func TestProgramsDieWithAKilledParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Logf("on %s only the guard sees to it", runtime.GOOS)
	}
	for _, whole := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "pids")
		parent := exec.Command(os.Args[0])
		parent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		parent.Env = append(os.Environ(), asMortal+`=trap '' TERM; (trap '' TERM; sleep 1000 & echo $! >>`+file+
			`; wait) & echo $$ $! >>`+file+`; wait`)
		said, err := parent.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := parent.Start(); err != nil {
			t.Fatal(err)
		}
		pids := readPids(t, file, 3) // the program may be quicker than word of it
		if _, err := said.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		target := parent.Process.Pid
		if whole {
			target = -target
		}
		if err := syscall.Kill(target, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = parent.Wait()
		for _, pid := range pids {
			eventually(t, "the program and what it started are gone", func() bool { return !alive(pid) })
		}
	}
}

func TestProgramsHaveAGroupOfTheirOwn(t *testing.T) {
	l := newLauncher(t)
	cmd := exec.Command("/bin/sh", "-c", "sleep 1000")
	p, err := l.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	group, err := syscall.Getpgid(cmd.Process.Pid)
	if err != nil || group != cmd.Process.Pid {
		t.Errorf("group %d of process %d, %v", group, cmd.Process.Pid, err)
	}
	p.Kill()
	if state := p.Wait(); state.Success() {
		t.Errorf("ended with %v", state)
	}
	p.Kill() // of what is gone: nothing happens
}

// slowStart is the context of a program whose start takes until it may go on.
type slowStart struct {
	context.Context
	goOn chan struct{}
}

func (s slowStart) Done() <-chan struct{} {
	<-s.goOn
	return nil
}

// A launcher that is closed while programs are being started starts none of them, or
// kills it.
func TestCloseWhileProgramsAreStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := handler.NewLauncher()
		if err != nil {
			t.Fatal(err)
		}
		ctx := slowStart{t.Context(), make(chan struct{})}
		slow := exec.CommandContext(ctx, "/bin/sh", "-c", "sleep 1000")
		next := exec.Command("/bin/sh", "-c", "sleep 1000")
		var starts sync.WaitGroup
		for _, cmd := range []*exec.Cmd{slow, next} {
			starts.Go(func() {
				if _, err := l.Start(cmd); !errors.Is(err, os.ErrClosed) {
					t.Errorf("got %v, want os.ErrClosed", err)
				}
			})
			synctest.Wait() // the first is being started, the second waits for its turn
		}
		l.Close()
		close(ctx.goOn)
		starts.Wait()
		if slow.Process != nil && slow.ProcessState == nil {
			t.Error("the first was started, and still runs")
		}
		if next.Process != nil {
			t.Error("the second was started, too")
		}
	})
}
