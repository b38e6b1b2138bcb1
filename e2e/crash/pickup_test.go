//go:build linux

package crash

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/e2e/worker/journal"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/postgres"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// envProducer makes this test binary a producer that appends through the Go
// interface, on the store that the variable names.
const envProducer = "PAWL_E2E_PRODUCER"

// produce appends a message for every line "TOPIC ID PRIORITY COUNT BODY" on stdin;
// several get the ids ID-0, ID-1 … It answers with the times before and after.
func produce(url string) int {
	ctx := context.Background()
	s, err := openStore(ctx, url)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		f := strings.SplitN(in.Text(), " ", 5)
		priority, _ := strconv.Atoi(f[2]) // our own lines
		count, _ := strconv.Atoi(f[3])
		var ms []pawl.Message
		for n := range count {
			id := f[1]
			if count > 1 {
				id = fmt.Sprintf("%s-%d", f[1], n)
			}
			ms = append(ms, pawl.Message{Topic: f[0], ID: id, Priority: priority, Body: []byte(f[4])})
		}
		before := journal.Now()
		receipts, err := s.Append(ctx, store.NewBatch(ms...))
		after := journal.Now()
		if err == nil {
			err = receipts[0].Err
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(int64(before), int64(after))
	}
	_ = s.Close() // the appends are durable already
	return 0
}

func openStore(ctx context.Context, url string) (store.Store, error) {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		return sqlite.Open(ctx, sqlite.Config{Path: path})
	}
	return postgres.Open(ctx, postgres.Config{URL: url})
}

// resident is a producer process that stays. It is safe for concurrent use.
type resident struct {
	mu  sync.Mutex
	in  io.WriteCloser
	out *bufio.Reader
}

// startResident starts a producer in a process of its own.
func startResident(t *testing.T, s *site) *resident {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envProducer+"="+s.url)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("producer: %v", err)
		}
	})
	return &resident{in: in, out: bufio.NewReader(out)}
}

// send appends count messages and returns when Append was called and when it had
// returned.
func (r *resident) send(topic, id string, priority, count int, body string) (before, after time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := fmt.Fprintln(r.in, topic, id, priority, count, body); err != nil {
		return 0, 0, err
	}
	_, err = fmt.Fscanln(r.out, &before, &after)
	return before, after, err
}

// TestPickup measures how soon a lone message is begun that another process
// appended, while the worker waits.
func TestPickup(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *site) {
		const topic = "lone"
		messages := 60
		if strict() {
			messages = 200
		}
		r := seed(t)
		folder := t.TempDir()
		launch(t, s.env(), nil, nil, "work", topic, "--pipe", pipeCommand(folder), "--concurrency", "4")
		producer := startResident(t, s)
		lone := func(n int) (fromCall, fromReturn time.Duration) {
			id := fmt.Sprint("lone", n)
			before, after, err := producer.send(topic, id, 0, 1, "-")
			if err != nil {
				t.Fatal(err)
			}
			var at time.Duration
			eventually(t, 10*time.Second, id+" is begun", func() bool { at = started(t, folder)[id]; return at > 0 })
			return at - before, at - after
		}
		lone(-1) // the workers are up
		var fromCall, fromReturn []time.Duration
		for n := range messages {
			time.Sleep(quietFor(r)) // a message is lone because nothing was there for a while
			a, b := lone(n)
			fromCall, fromReturn = append(fromCall, a), append(fromReturn, b)
		}
		p99 := quantile(fromReturn, 0.99)
		t.Logf("pickup of a lone message, %d times: p50 %v, p99 %v, max %v after its append had returned; p50 %v, p99 %v after it was called",
			messages, quantile(fromReturn, 0.5), p99, quantile(fromReturn, 1), quantile(fromCall, 0.5),
			quantile(fromCall, 0.99))
		if p99 > bound(20*time.Millisecond) {
			t.Errorf("p99 is %v; the bar is 20ms", p99)
		}
	})
}

// quietFor is a pause: often short, sometimes beyond what a worker backs off to.
func quietFor(r *rand.Rand) time.Duration {
	return time.Duration(min(r.ExpFloat64(), 6) * 0.1 * float64(time.Second))
}
