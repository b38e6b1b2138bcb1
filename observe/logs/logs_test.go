package logs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/slogtest"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/observe/logs"
)

// output keeps what is written, and has the faults of a sink.
type output struct {
	mu     sync.Mutex
	text   bytes.Buffer
	free   chan struct{} // nil: it does not hang
	broken atomic.Bool
}

func (o *output) Write(b *logs.Batch) {
	if o.free != nil {
		<-o.free
	}
	if o.broken.Load() {
		b.Done(b.Lines(), errors.New("broken"))
		return
	}
	o.mu.Lock()
	for _, s := range b.Segments {
		o.text.Write(s.Data)
	}
	o.mu.Unlock()
	b.Done(0, nil)
}

func (o *output) Close() {}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// account counts the records of an output by their numbers, and what it says about those that are missing. Each has to
// be there once, or to be told of.
func account(t *testing.T, text string, offered int) (written, dropped int) {
	t.Helper()
	seen := map[int]bool{}
	for line := range strings.Lines(text) {
		var r struct {
			Seq, Dropped int
			From         int `json:"seq_from"`
			To           int `json:"seq_to"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		switch {
		case r.Dropped > 0:
			dropped += r.Dropped
			if r.From < 1 || r.To > offered || r.To-r.From+1 < r.Dropped {
				t.Errorf("a gap that cannot be: %s", line)
			}
		case r.Seq < 1 || r.Seq > offered || seen[r.Seq]:
			t.Errorf("the number of this record is out of range, or there twice: %s", line)
		default:
			seen[r.Seq] = true
		}
	}
	if len(seen)+dropped != offered {
		t.Errorf("%d written and %d dropped, of %d", len(seen), dropped, offered)
	}
	return len(seen), dropped
}

func TestRecordsReachEverySinkInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text, lines := &output{}, &output{}
		log := logs.New(logs.Config{Node: "n1", Sinks: []logs.Sink{
			{Name: "text", Level: slog.LevelWarn, Buffer: 100_000, Output: text},
			{Name: "json", JSON: true, Buffer: 100_000, Output: lines},
		}})
		l := slog.New(log.Handler())
		const producers, each = 4, 2000
		var wg sync.WaitGroup
		for p := range producers {
			wg.Go(func() {
				for i := range each {
					level := slog.LevelInfo
					if i%10 == 0 {
						level = slog.LevelWarn
					}
					l.Log(t.Context(), level, "hello", "p", p, "i", i)
				}
			})
		}
		wg.Wait()
		log.Close()
		if written, _ := account(t, lines.String(), producers*each); written != producers*each {
			t.Errorf("%d written", written)
		}
		last, before := map[string]int{}, 0
		for line := range strings.Lines(lines.String()) {
			m := regexp.MustCompile(`"node_id":"n1","p":(\d),"i":(\d+),"seq":(\d+)\}`).FindStringSubmatch(line)
			if m == nil {
				t.Fatal(line)
			}
			i, _ := strconv.Atoi(m[2])
			seq, _ := strconv.Atoi(m[3])
			if n, ok := last[m[1]]; ok && i != n+1 || seq != before+1 {
				t.Fatalf("%s comes after %d, and after seq %d", line, n, before)
			}
			last[m[1]], before = i, seq
		}
		if n := strings.Count(text.String(), "level=WARN message=hello p="); n != producers*each/10 ||
			strings.Count(text.String(), "\n") != n {
			t.Errorf("%d warnings:\n%.300s", n, text.String())
		}
		for _, f := range log.Figures() {
			if f.Lag != 0 || f.Written+f.Dropped["full"] != f.Emits["info"]+f.Emits["warn"] {
				t.Errorf("%+v", f)
			}
		}
	})
}

func TestASinkThatHangsCostsOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung, other := &output{free: make(chan struct{})}, &output{}
		log := logs.New(logs.Config{Sinks: []logs.Sink{
			{Name: "hung", JSON: true, Buffer: 100, Output: hung}, {Name: "other", JSON: true, Output: other},
		}})
		l := slog.New(log.Handler())
		offered := 0
		offer := func(n int) {
			for range n {
				l.Info("hello", "i", offered)
				offered++
			}
			time.Sleep(10 * time.Millisecond)
		}
		began := time.Now()
		for range 20 {
			offer(30)
		}
		if took := time.Since(began); took != 200*time.Millisecond {
			t.Errorf("callers waited: %v instead of 200ms", took)
		}
		figures := log.Figures()
		if f := figures[0]; f.Lag != 100 || f.Dropped["full"] != uint64(offered-100) || f.Written != 0 {
			t.Errorf("the sink that hangs: %+v", f)
		}
		if f := figures[1]; f.Lag != 0 || f.Written != uint64(offered) || len(f.Dropped) > 0 {
			t.Errorf("the other sink: %+v", f)
		}
		close(hung.free)
		offer(30)
		log.Close()
		if _, dropped := account(t, hung.String(), offered); dropped != 500 {
			t.Errorf("%d dropped, want 500", dropped)
		}
		if !strings.Contains(hung.String(), `"message":"dropped 500, seq 101 to 600"`) {
			t.Errorf("the gap is not told: %s", hung.String()[len(hung.String())-900:])
		}
		account(t, other.String(), offered)
	})
}

func TestASinkThatFailsTellsOfItWhenItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, other := &output{}, &output{}
		log := logs.New(logs.Config{Sinks: []logs.Sink{
			{Name: "bad", JSON: true, Output: bad}, {Name: "other", JSON: true, Output: other},
		}})
		l := slog.New(log.Handler())
		bad.broken.Store(true)
		for range 5 {
			l.Info("lost")
			time.Sleep(5 * time.Millisecond)
		}
		if f := log.Figures()[0]; f.Dropped["failed"] != 5 {
			t.Errorf("%+v", f)
		}
		bad.broken.Store(false)
		time.Sleep(3 * time.Second) // nothing else comes: the sink tells of the gap by itself
		synctest.Wait()
		if !strings.Contains(bad.String(), `"message":"dropped 5, seq 1 to `) {
			t.Errorf("got %q", bad.String())
		}
		for _, want := range []string{"a log sink takes no records", "a log sink takes records again"} {
			if strings.Count(other.String(), want) != 1 || strings.Contains(bad.String(), want) {
				t.Errorf("%s: once in the other sink, not in its own:\n%s\n%s", want, other.String(), bad.String())
			}
		}
		log.Close()
	})
}

func TestASinkThatHangsDoesNotHoldUpTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := &output{free: make(chan struct{})}
		log := logs.New(logs.Config{Sinks: []logs.Sink{{Name: "hung", Output: hung}}})
		slog.New(log.Handler()).Info("hello")
		began := time.Now()
		log.Close()
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the end took %v", took)
		}
		if f := log.Figures()[0]; f.Dropped["closed"] != 1 || f.Lag != 0 {
			t.Errorf("%+v", f)
		}
		close(hung.free)
	})
}

func TestABatchWaitsForOthersOnlySoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &output{}
		log := logs.New(logs.Config{Sinks: []logs.Sink{{Name: "mq", Batch: 3, Flush: time.Second, Output: o}}})
		l := slog.New(log.Handler())
		l.Info("one")
		time.Sleep(900 * time.Millisecond)
		if o.String() != "" {
			t.Error("it did not wait for others")
		}
		time.Sleep(200 * time.Millisecond)
		if !strings.Contains(o.String(), "one") {
			t.Error("it waits for too long")
		}
		for range 3 {
			l.Info("two")
		}
		time.Sleep(10 * time.Millisecond)
		if strings.Count(o.String(), "two") != 3 || log.Figures()[0].Batches[1] != 1 {
			t.Errorf("a full batch waits: %+v", log.Figures()[0])
		}
		log.Close()
	})
}

func TestIncludeSaysWhichFieldsRecordsHave(t *testing.T) {
	for _, test := range []struct {
		include    []string
		text, json string
	}{
		{nil, `level=ERROR message="it failed" module=m task_id=t policy.action=retry other.a=1` + "\n",
			`"module":"m","task_id":"t","policy.action":"retry","other.a":1,"seq":1}`},
		{[]string{"seq", "module"}, `level=ERROR message="it failed" module=m other.a=1 seq=1` + "\n",
			`"module":"m","other.a":1,"seq":1}`},
		{[]string{"node_id"}, `level=ERROR message="it failed" node_id=n other.a=1` + "\n", `"node_id":"n","other.a":1}`},
	} {
		text, lines := &output{}, &output{}
		log := logs.New(logs.Config{Include: test.include, Node: "n", Sinks: []logs.Sink{
			{Name: "text", Output: text}, {Name: "json", JSON: true, Output: lines}}})
		slog.New(log.Handler()).With(observe.Module, "m").Error("it failed", observe.TaskID, "t",
			observe.PolicyAction, "retry", slog.Group("other", "a", 1))
		log.Close()
		if !strings.HasSuffix(text.String(), test.text) || !strings.HasSuffix(lines.String(), test.json+"\n") {
			t.Errorf("%v:\n%s%s", test.include, text, lines)
		}
	}
}

// TestHandlerIsASlogHandler: groups are dotted keys, which the test takes apart.
func TestHandlerIsASlogHandler(t *testing.T) {
	o := &output{}
	log := logs.New(logs.Config{Include: []string{}, Sinks: []logs.Sink{{Name: "json", JSON: true, Output: o}}})
	err := slogtest.TestHandler(log.Handler(), func() []map[string]any {
		log.Close()
		var all []map[string]any
		for line := range strings.Lines(o.String()) {
			flat, record := map[string]any{}, map[string]any{}
			if err := json.Unmarshal([]byte(line), &flat); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			flat["msg"] = flat["message"]
			for key, value := range flat {
				at, names := record, strings.Split(key, ".")
				for _, group := range names[:len(names)-1] {
					if at[group] == nil {
						at[group] = map[string]any{}
					}
					at = at[group].(map[string]any)
				}
				at[names[len(names)-1]] = value
			}
			all = append(all, record)
		}
		return all
	})
	if err != nil {
		t.Error(err)
	}
}

type panics struct{}

func (panics) Error() string { panic("no") }

// nested panics with itself, which package fmt does not recover from.
type nested struct{}

func (n nested) Error() string { panic(n) }

func TestOddValues(t *testing.T) {
	text, lines := &output{}, &output{}
	log := logs.New(logs.Config{Sinks: []logs.Sink{{Name: "text", Output: text},
		{Name: "json", JSON: true, Output: lines}}})
	slog.New(log.Handler()).LogAttrs(context.Background(), observe.LevelCritical, "two\nlines \xff \"x\"",
		slog.Any("err", errors.New("a=b")), slog.Any("panic", panics{}), slog.Any("nested", nested{}),
		slog.Float64("nan", math.NaN()),
		slog.Duration("d", time.Second), slog.Any("map", map[string]int{"a": 1}), slog.String("empty", ""),
		slog.Any("chan", make(chan int)), slog.Bool("yes", true), slog.Uint64("u", 7), slog.Any("nothing", nil))
	log.Close()
	for _, want := range []string{`level=CRITICAL message="two\nlines \xff \"x\""`, `err="a=b"`, `panic="!PANIC: no"`, "nan=NaN",
		`nested="!PANIC: of a logs_test.nested"`,
		" d=1s", ` map=map[a:1]`, ` empty=""`, "yes=true u=7 nothing=<nil>"} {
		if !strings.Contains(text.String(), want) || strings.Count(text.String(), "\n") != 1 {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	var r map[string]any
	if err := json.Unmarshal([]byte(lines.String()), &r); err != nil {
		t.Fatalf("%s: %v", lines, err)
	}
	for key, want := range map[string]any{"level": "CRITICAL", "message": "two\nlines \uFFFD \"x\"", "err": "a=b",
		"panic": "!PANIC: no", "nested": "!PANIC: of a logs_test.nested", "nan": "NaN",
		"d": 1e9, "map": map[string]any{"a": 1.0}, "yes": true, "nothing": nil} {
		if fmt.Sprint(r[key]) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", key, r[key], want)
		}
	}
}

func TestSecretsAreTakenOut(t *testing.T) {
	o := &output{}
	log := logs.New(logs.Config{Redact: func(s string) string { return strings.ReplaceAll(s, "geheim", "***") },
		Sinks: []logs.Sink{{Name: "json", JSON: true, Output: o}}})
	slog.New(log.Handler()).With("a", "geheim").Info("geheim", "b", "geheim")
	log.Close()
	if strings.Contains(o.String(), "geheim") || strings.Count(o.String(), "***") != 3 {
		t.Error(o)
	}
}
