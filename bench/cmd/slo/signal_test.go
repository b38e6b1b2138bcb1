package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv("SLO_RUNS") != "" { // this program as the command, and as its workers
		main()
		return
	}
	os.Exit(m.Run())
}

// TestSignalsEndIt: told to end while a worker is at work, it ends, and leaves neither the worker nor its folder.
func TestSignalsEndIt(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		dir := t.TempDir()
		c := exec.CommandContext(t.Context(), os.Args[0], "-store", "sqlite", "-messages", "1000000")
		c.Env = append(os.Environ(), "SLO_RUNS=1", "TMPDIR="+dir)
		var errs bytes.Buffer
		c.Stderr = &errs
		c.WaitDelay = time.Minute
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if made, _ := os.ReadDir(dir); len(made) > 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("it made no store within a minute")
			}
		}
		if err := c.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		err := c.Wait() // the pipe of the errors ends with the last worker
		left, _ := os.ReadDir(dir)
		if err == nil || len(left) > 0 || !strings.Contains(errs.String(), "what it had started is removed") {
			t.Errorf("%v: %v, left %v: %s", signal, err, left, errs.String())
		}
	}
}
