//go:build unix

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// cutter is a proxy before an API process. It cuts all its connections, or stops them for a while.
type cutter struct {
	net.Listener
	mu    sync.Mutex
	open  map[net.Conn]bool
	until time.Time // nothing is passed on before
}

func newCutter(t *testing.T, to string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c := &cutter{Listener: l, open: map[net.Conn]bool{}}
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			behind, err := net.Dial("tcp", to)
			if err != nil {
				_ = from.Close()
				continue
			}
			c.mu.Lock()
			c.open[from], c.open[behind] = true, true
			c.mu.Unlock()
			go c.pass(from, behind)
			go c.pass(behind, from)
		}
	}()
	return c
}

func (c *cutter) pass(from, to net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		c.mu.Lock()
		wait := time.Until(c.until)
		c.mu.Unlock()
		time.Sleep(wait)
		if n > 0 {
			_, _ = to.Write(buf[:n])
		}
		if err != nil {
			_, _ = from.Close(), to.Close()
			return
		}
	}
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		_ = conn.Close()
	}
	clear(c.open)
}

func (c *cutter) stall(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Now().Add(d)
}

func (c *cutter) url() string { return "http://" + c.Addr().String() }

// crew is processes of one kind, which are killed and started again.
type crew struct {
	t       *testing.T
	make    func(n int) *exec.Cmd
	running []*exec.Cmd
	frozen  map[int]bool // processes that were
}

func newCrew(t *testing.T, size int, build func(n int) *exec.Cmd) *crew {
	c := &crew{t: t, make: build, running: make([]*exec.Cmd, size), frozen: map[int]bool{}}
	for n := range c.running {
		c.start(n)
	}
	t.Cleanup(func() {
		for _, p := range c.running {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return c
}

func (c *crew) start(n int) {
	p := c.make(n)
	if err := p.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.running[n] = p
}

func (c *crew) kill(n int) {
	_ = c.running[n].Process.Kill()
	_ = c.running[n].Wait()
	c.start(n)
}

func (c *crew) freeze(n int, d time.Duration) {
	p := c.running[n].Process
	_ = p.Signal(syscall.SIGSTOP)
	c.frozen[p.Pid] = true
	time.AfterFunc(d, func() { _ = p.Signal(syscall.SIGCONT) })
}

// TestAPIOverFaults: workers and a producer in Python, over two API processes on one store. Workers are killed and
// frozen for longer than a lease, the APIs are killed, and proxies between them cut and stall connections. Nothing is
// lost or stored twice, no message has two live leases, and keys keep their order.
func TestAPIOverFaults(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not there")
	}
	const messages, keys, workers, chaos = 500, 25, 4, 9 * time.Second
	dir := t.TempDir()
	store := "sqlite:" + filepath.Join(dir, "pawl.db")
	addresses, cutters, urls := make([]string, 2), make([]*cutter, 2), []string(nil)
	for i := range addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = l.Addr().String()
		_ = l.Close()
		cutters[i] = newCutter(t, addresses[i])
		urls = append(urls, cutters[i].url())
	}
	doors := newCrew(t, 2, func(n int) *exec.Cmd {
		return exec.Command("pawl", "api", "--listen", addresses[n], "--store", store)
	})
	script := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(python, append([]string{"-B", "testdata/" + name}, append(args, urls...)...)...)
		c.Env = append(os.Environ(), "PYTHONPATH=../clients/python")
		return c
	}
	journal := filepath.Join(dir, "journal")
	hands := newCrew(t, workers, func(int) *exec.Cmd { return script("api_worker.py", journal) })
	producer := script("api_producer.py", fmt.Sprint(messages), fmt.Sprint(keys))
	var said bytes.Buffer
	producer.Stderr = &said
	if err := producer.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = producer.Process.Kill() }()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for end := time.Now().Add(chaos); time.Now().Before(end); {
		time.Sleep(time.Duration(100+r.IntN(300)) * time.Millisecond)
		switch c := cutters[r.IntN(2)]; r.IntN(10) {
		case 0, 1, 2:
			c.cut()
		case 3, 4:
			c.stall(time.Duration(100+r.IntN(900)) * time.Millisecond)
		case 5, 6:
			hands.freeze(r.IntN(workers), time.Duration(500+r.IntN(4000))*time.Millisecond)
		case 7, 8:
			hands.kill(r.IntN(workers))
		case 9:
			doors.kill(r.IntN(2))
		}
	}
	if err := producer.Wait(); err != nil {
		t.Fatalf("the producer: %v: %s", err, &said)
	}
	var figures struct {
		Appended int64 `json:"appended_total"`
		Acked    int64 `json:"acked_total"`
		Dead     int64
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err := askJSON("http://"+addresses[0]+"/v1/topics/work", "", &figures); err == nil &&
			figures.Acked+figures.Dead >= messages {
			break
		}
	}
	if figures.Appended != messages || figures.Acked+figures.Dead != messages {
		t.Errorf("sent %d, stored %d, done %d, dead %d", messages, figures.Appended, figures.Acked, figures.Dead)
	}
	judgeJournal(t, journal, messages, hands.frozen)
	staleSettle(t, addresses)
}

// judgeJournal reads what workers wrote. A lease lasts 3 s; half of that may pass before its worker hears of it. A
// worker that was frozen may begin, or go on with, what another one has by then: its verdict is lost.
func judgeJournal(t *testing.T, file string, messages int, frozen map[int]bool) {
	t.Helper()
	const surely = 1500 * time.Millisecond
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type work struct {
		token      string
		pid        int
		began, end int64
	}
	lanes, newest, seen, attempts := map[string]*work{}, map[string]int{}, map[int]bool{}, 0
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		var what, key string
		var n int
		var w work
		if _, err := fmt.Sscan(s.Text(), &what, &key, &n, &w.token, &w.pid, &w.began); err != nil {
			continue // its worker was killed while it wrote
		}
		before := lanes[key]
		if what == "end" {
			if before != nil && before.token == w.token {
				before.end = w.began
			}
			continue
		}
		attempts++
		if before != nil && before.end == 0 && !frozen[w.pid] && !frozen[before.pid] {
			if after := time.Duration(w.began - before.began); after < surely {
				t.Errorf("%s: message %d begins %v after another of its key, which has not ended", key, n, after)
			}
		}
		if was, ok := newest[key]; ok && !seen[n] && n < was {
			t.Errorf("%s: message %d begins for the first time after %d", key, n, was)
		}
		lanes[key], newest[key], seen[n] = &w, max(newest[key], n), true
	}
	if len(seen) != messages {
		t.Errorf("%d of %d messages were begun", len(seen), messages)
	}
	t.Logf("%d attempts at %d messages", attempts, messages)
}

// staleSettle: a verdict whose lease is over changes nothing, whichever process hears it.
func staleSettle(t *testing.T, addresses []string) {
	t.Helper()
	url := func(n int, path string) string { return "http://" + addresses[n] + path }
	for n := range addresses { // one that was killed last may still be starting
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if askJSON(url(n, "/v1/topics/work"), "", nil) == nil {
				break
			}
		}
	}
	var leased struct{ Deliveries []struct{ Token string } }
	var settled struct{ Results []struct{ Action string } }
	if err := askJSON(url(0, "/v1/topics/stale/messages"), `{"body":"x"}`, nil); err != nil {
		t.Fatal(err)
	}
	var tokens []string
	for i := range 2 {
		err := askJSON(url(i, "/v1/lease"), `{"topics":["stale"],"lease_seconds":1,"wait_seconds":10}`, &leased)
		if err != nil || len(leased.Deliveries) != 1 {
			t.Fatal(err, leased)
		}
		tokens = append(tokens, leased.Deliveries[0].Token)
	}
	body := `{"settlements":[{"token":"` + strings.Join(tokens, `","verdict":"ack"},{"token":"`) + `","verdict":"ack"}]}`
	if err := askJSON(url(0, "/v1/settle"), body, &settled); err != nil || len(settled.Results) != 2 ||
		settled.Results[0].Action != "lost" || settled.Results[1].Action != "acked" {
		t.Errorf("settled: %v %+v", err, settled)
	}
}

// askJSON posts a body, or gets without one, and reads the answer into v.
func askJSON(url, body string, v any) error {
	r, err := http.Get(url) //nolint:gosec // of this test
	if body != "" {
		r, err = http.Post(url, "application/json", strings.NewReader(body)) //nolint:gosec // of this test
	}
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode > 299 {
		err = fmt.Errorf("%s: %s", r.Status, text)
	}
	if err == nil && v != nil {
		err = json.Unmarshal(text, v)
	}
	return err
}
