package serve

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

func configured(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Load(config.Source{Path: "pawl.yaml", Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// logBook is what was logged, by whichever goroutine.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logBook) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// reloading is the parts of a daemon that a reload touches.
func reloading(t *testing.T, text string) (d *Daemon, logs *logBook) {
	t.Helper()
	logs = &logBook{}
	metrics, err := observe.New(observe.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	d = &Daemon{
		DaemonConfig: DaemonConfig{
			Config: configured(t, text), Text: []byte(text), Hangup: make(chan struct{}), Level: &slog.LevelVar{},
			Logger: slog.New(slog.NewTextHandler(logs, nil)), Load: func(s config.Source) (*config.Config, error) {
				return config.Load(s)
			},
		},
		metrics: metrics,
	}
	m, err := policy.NewMatrixOf(nil, nil, d.Config.Overrides...)
	if err != nil {
		t.Fatal(err)
	}
	d.policy = newLivePolicy(m, d.Logger)
	s := memory.New(memory.Config{})
	if d.limits, err = newLimits(d.Config.Limits, s); err != nil {
		t.Fatal(err)
	}
	var topics []dispatch.Topic
	for _, topic := range d.Config.Topics {
		c := &servedTopic{runner: plain{}, topic: topic}
		if c.limit, c.limits, err = d.limits.of(&topic); err != nil {
			t.Fatal(err)
		}
		d.served, topics = append(d.served, c), append(topics, c.dispatched())
	}
	if d.dispatcher, err = dispatch.New(s, dispatch.Config{Topics: topics}); err != nil {
		t.Fatal(err)
	}
	return d, logs
}

const plainFile = "topics: {a: {handler: exec, command: cat, limit: 10/s}}\n"

// A file is read while it is written, gone for a moment, and back: what is in
// effect is always something that was there as a whole.
func TestReloadWaitsUntilTheFileIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, logs := reloading(t, plainFile)
		var file atomic.Pointer[string]
		write := func(text string) { file.Store(&text) }
		write(plainFile)
		d.Read = func() (config.Source, error) {
			if text := *file.Load(); text != "gone" {
				return config.Source{Path: "pawl.yaml", Text: []byte(text)}, nil
			}
			return config.Source{}, os.ErrNotExist
		}
		ctx, cancel := context.WithCancel(t.Context())
		go d.watchConfig(ctx)
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		pass(10*time.Second + watchEvery/2) // between two looks
		if logs.String() != "" {
			t.Fatalf("nothing changed, but: %s", logs)
		}
		write("topics: {a: {handler: ex") // half of it
		pass(watchEvery)
		whole := strings.Replace(plainFile, "10/s", "20/s, concurrency: 9",
			1) + "logger: {level: warn}\npolicy: {overrides: [{match: {kind: Command}, alert: critical}]}\n"
		write(whole)
		pass(3 * watchEvery)
		if strings.Contains(logs.String(), "problem") || !strings.Contains(logs.String(), "configuration reloaded") {
			t.Errorf("after the file was written: %s", logs)
		}
		if rate := d.served[0].limit.Snapshot().Rate; rate != 20 {
			t.Errorf("the limit is %v", rate)
		}
		if n := d.dispatcher.Snapshot().Topics[0].Concurrency; n != 9 {
			t.Errorf("the concurrency is %d", n)
		}
		if d.Level.Level() != slog.LevelWarn {
			t.Errorf("the level is %v", d.Level.Level())
		}
		if alert := d.policy.Decide(policy.Attempt{Number: 1,
			Err: pawl.OfKind("Command", errors.New("x"))}).Alert; alert != policy.Critical {
			t.Errorf("the alert is %v", alert)
		}
		logs.Reset()
		write("gone")
		pass(5 * watchEvery)
		if n := strings.Count(logs.String(), "not reloaded"); n != 1 {
			t.Errorf("told %d times that the file is gone: %s", n, logs)
		}
		write(whole)
		pass(3 * watchEvery)
		if len(d.loaded.faults) > 0 {
			t.Errorf("the file is back, but %v", d.loaded.faults)
		}
		cancel()
		synctest.Wait()
	})
}

func TestAFaultChangesNothing(t *testing.T) {
	d, logs := reloading(t, plainFile)
	before := d.policy.Load()
	d.reload(config.Source{Path: "pawl.yaml",
		Text: []byte(
			"topics: {a: {handler: exec, command: cat, limit: 99/s, lease: 1}}\nlogger: {level: debug}\ndrian: 1s\n")})
	if d.policy.Load() != before || d.served[0].limit.Snapshot().Rate != 10 || d.Level.Level() != slog.LevelInfo {
		t.Error("a part of a file with faults is in effect")
	}
	if n := len(d.loaded.faults); n != 2 || strings.Count(logs.String(), "problem=") != 2 {
		t.Errorf("%d faults: %s", n, logs)
	}
	if !strings.Contains(d.status(), "2 faults") {
		t.Errorf("the status is %q", d.status())
	}
}

// manager is a service manager: where it listens, and what waits until it is told
// something.
func manager(t *testing.T) (socket string, said func(string)) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return socket, func(want string) {
		t.Helper()
		b := make([]byte, 1024)
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		for {
			n, err := conn.Read(b)
			if err != nil {
				t.Fatalf("%s is not said: %v", want, err)
			}
			if strings.Contains(string(b[:n]), want) {
				return
			}
		}
	}
}

// A daemon in a process: it tells the service manager how it is, serves its
// health, and drains.
func TestDaemonLivesAndEnds(t *testing.T) {
	socket, said := manager(t)
	hold := make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	defer service.Close()
	text := "listen: 127.0.0.1:0\ntopics: {a: {handler: http, url: '" + service.URL + "'}}\n"
	s := memory.New(memory.Config{})
	hangups := make(chan struct{}, 1)
	d, err := NewDaemon(s, DaemonConfig{
		Config: configured(t, text), Text: []byte(text), Hangup: hangups, Level: &slog.LevelVar{},
		Logger: slog.New(slog.DiscardHandler),
		Read:   func() (config.Source, error) { return config.Source{Path: "pawl.yaml", Text: []byte(text)}, nil },
		Load:   func(s config.Source) (*config.Config, error) { return config.Load(s) },
		Getenv: func(name string) string {
			return map[string]string{"NOTIFY_SOCKET": socket, "WATCHDOG_USEC": "100000"}[name]
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "a"})); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	said("READY=1")
	said("WATCHDOG=1")
	hangups <- struct{}{}
	said("RELOADING=1")
	said("READY=1")
	page := func(path string, status int) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; {
			reply, err := http.Get("http://" + d.Address() + path)
			if err == nil {
				_ = reply.Body.Close()
			}
			if err == nil && reply.StatusCode == status {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s is not %d: %v, %v", path, status, reply, err)
			}
		}
	}
	page("/livez", 200)
	page("/readyz", 200)
	page("/metrics", 200)
	for d.dispatcher.Snapshot().Topics[0].Running == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	said("STOPPING=1")
	page("/readyz", 503) // while it drains
	page("/livez", 200)
	close(hold)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if acked := d.health().Topics[0].Acked; acked != 1 {
		t.Errorf("%d acked; what ran was to be finished", acked)
	}
}
