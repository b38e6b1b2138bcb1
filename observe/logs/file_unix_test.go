//go:build linux

package logs_test

import (
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/observe/logs"
)

// TestFullDisk: the kernel lets a file of this process grow to a bound and no further, in the middle of a record. The
// record is dropped whole, and when there is room again the file tells of it.
func TestFullDisk(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pawl.log")
	o, err := logs.OpenFile(logs.FileConfig{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	log := logs.New(logs.Config{Include: []string{"seq"}, Sinks: []logs.Sink{{Name: "file", Output: o}}})
	l := slog.New(log.Handler())
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1000, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		l.Info("hello")
	}
	await(t, func() bool { return log.Figures()[0].Lag == 0 })
	full, _ := os.ReadFile(path)
	restored := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)
	if restored != nil {
		t.Fatal(restored)
	}
	f := log.Figures()[0]
	if f.Dropped["failed"] == 0 || f.Written+f.Dropped["failed"] != 100 ||
		strings.Count(string(full), "\n") != int(f.Written) || !strings.HasSuffix(string(full), "\n") {
		t.Errorf("%+v:\n%s", f, full)
	}
	l.Info("again")
	log.Close()
	text, _ := os.ReadFile(path)
	if !strings.Contains(string(text), "event_type=log.dropped sink=file dropped=") ||
		!strings.Contains(string(text), "message=again seq=101") {
		t.Errorf("%s", text)
	}
}

// await waits until a condition holds.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it has not come true in 30 s")
		}
	}
}
