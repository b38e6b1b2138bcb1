package send_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lines"
	"github.com/pawl-dev/pawl/internal/send"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// shaky is a store whose appends fail at times, before or after they took effect.
type shaky struct {
	store.Store
	mu      sync.Mutex
	calls   int
	batches map[string]int // calls by batch id
	fail    func(call int) (before, after bool)
}

func (s *shaky) Append(ctx context.Context, b store.Batch[pawl.Message]) ([]store.Receipt, error) {
	s.mu.Lock()
	s.calls++
	s.batches[b.ID]++
	before, after := s.fail(s.calls)
	s.mu.Unlock()
	down := &store.Error{Op: "append", Code: store.ErrUnavailable}
	if before {
		return nil, down
	}
	r, err := s.Store.Append(ctx, b)
	if after {
		return nil, down
	}
	return r, err
}

func (s *shaky) Unwrap() store.Store { return s.Store }

func stored(t *testing.T, s store.Store) (ids []string) {
	t.Helper()
	i, _ := store.As[store.Inspector](s, store.CanLookup)
	for r, err := range i.List(t.Context(), store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	return ids
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"id":"%05d","body":"x"}`+"\n", i)
	}
	return b.String()
}

func TestLinesAreRepeatedUnderTheirBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shaky{Store: memory.New(memory.Config{}), batches: map[string]int{}, fail: func(call int) (bool, bool) {
			return call%3 == 1, call%3 == 2
		}}
		troubles := 0
		sender := send.Lines{Store: s, Topic: "t", Trouble: func(error) { troubles++ }}
		sent, err := sender.Run(t.Context(), strings.NewReader(numbered(12_000)))
		if err != nil || sent.Appended != 12_000 || sent.Duplicates != 0 || sent.Through != 12_000 {
			t.Errorf("%+v, %v", sent, err)
		}
		if ids := stored(t, s); len(ids) != 12_000 || ids[0] != "00000" || ids[11_999] != "11999" {
			t.Errorf("%d are stored", len(ids))
		}
		if s.calls != 3*len(s.batches) || troubles != s.calls-len(s.batches) {
			t.Errorf("%d calls for %d batches, %d troubles told", s.calls, len(s.batches), troubles)
		}
	})
}

func TestLinesEndWhenTheStoreDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shaky{Store: memory.New(memory.Config{}), batches: map[string]int{}, fail: func(int) (bool, bool) {
			return true, false
		}}
		began := time.Now()
		sent, err := (&send.Lines{Store: s, Topic: "t"}).Run(t.Context(), strings.NewReader(numbered(3)))
		if !errors.Is(err, store.ErrUnavailable) || sent.Through != 0 || time.Since(began) > time.Hour {
			t.Errorf("%+v, %v after %v", sent, err, time.Since(began))
		}
	})
}

func TestLinesThatAreInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	s := memory.New(memory.Config{})
	in, out := io.Pipe()
	defer func() { _ = out.Close() }()
	sender := send.Lines{Store: s, Topic: "t", Progress: func(p send.Sent) {
		if p.Through == 2 {
			cancel(why)
		}
	}}
	go func() { _, _ = io.WriteString(out, numbered(2)) }() // and then nothing, for ever
	sent, err := sender.Run(ctx, in)
	if !errors.Is(err, why) || sent.Appended != 2 || sent.Through != 2 {
		t.Errorf("%+v, %v", sent, err)
	}
}

func TestLinesComeAtOnce(t *testing.T) {
	s := memory.New(memory.Config{})
	in, out := io.Pipe()
	seen := make(chan send.Sent, 10)
	sender := send.Lines{Store: s, Topic: "t", Progress: func(p send.Sent) { seen <- p }}
	done := make(chan error, 1)
	go func() { _, err := sender.Run(t.Context(), in); done <- err }()
	for i := range 3 { // a line is appended though no further one follows
		_, _ = io.WriteString(out, "{}\n")
		if p := <-seen; p.Appended != int64(i+1) {
			t.Errorf("%+v after line %d", p, i+1)
		}
	}
	_ = out.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// refusing is a store that takes nothing.
type refusing struct{ *memory.Store }

func (refusing) Append(context.Context, store.Batch[pawl.Message]) ([]store.Receipt, error) {
	return nil, &store.Error{Op: "append", Code: store.ErrDenied}
}

func TestNobodyIsAskedWhenLinesAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		asked := 0
		sender := send.Lines{Store: refusing{memory.New(memory.Config{})}, Topic: "t", Bad: func(*lines.Error) bool {
			asked++
			return true
		}}
		go func() { _, _ = io.WriteString(out, "{}\n") }()
		if sent, err := sender.Run(t.Context(), in); !errors.Is(err, store.ErrDenied) {
			t.Errorf("%+v, %v", sent, err)
		}
		_, _ = io.WriteString(out, "nonsense\n") // the reading of the stream cannot be interrupted
		_ = out.Close()
		synctest.Wait()
		if asked != 0 {
			t.Error("asked about a line behind the end")
		}
	})
}

func TestLinesEndWithTheLastAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	defer func() { _ = out.Close() }()
	var answered atomic.Bool
	sender := send.Lines{Topic: "t", Bad: func(*lines.Error) bool {
		cancel()
		time.Sleep(50 * time.Millisecond) // who does not wait for the answer is back before
		answered.Store(true)
		return true
	}}
	go func() { _, _ = io.WriteString(out, "nonsense\n") }()
	if _, err := sender.Run(ctx, in); !errors.Is(err, context.Canceled) || !answered.Load() {
		t.Errorf("it returned %v; Bad has returned: %v", err, answered.Load())
	}
}

// long is a line of n times c, which is made while it is read.
func long(n int64, c byte) io.Reader {
	return io.MultiReader(strings.NewReader(`{"body":"`), io.LimitReader(again(c), n), strings.NewReader("\"}\n{}\n"))
}

// again is one byte again and again.
type again byte

func (a again) Read(b []byte) (int, error) {
	n := copy(b, bytes.Repeat([]byte{byte(a)}, min(len(b), 1<<16)))
	return n, nil
}

// scale weighs, every few megabytes that are read of a stream, what is held just then.
type scale struct {
	io.Reader
	next int // in so many bytes
	most int64
}

func (s *scale) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if s.next -= n; s.next <= 0 {
		s.next, s.most = 4<<20, max(s.most, held())
	}
	return n, err
}

// held is how much memory is in use, without what waits to be collected: that depends on
// how busy the machine is, and on other tests.
func held() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestLongLinesTakeLittleMemory(t *testing.T) {
	size, limit := int64(400<<20), int64(100<<20)
	if testing.Short() {
		size = 120 << 20
	}
	for _, c := range []byte("x\\") {
		sender := send.Lines{Store: memory.New(memory.Config{}), Topic: "t", Bad: func(*lines.Error) bool {
			return true
		}}
		runtime.GC() // pools of other tests let go with the second one
		before, in := held(), &scale{Reader: long(size, c)}
		sent, err := sender.Run(t.Context(), in)
		if err != nil || sent.Skipped != 1 || sent.Appended != 1 {
			t.Errorf("%q: %+v, %v", c, sent, err)
		}
		if most := in.most - before; most > limit {
			t.Errorf("%q: %d MB for a line of %d MB", c, most>>20, size>>20)
		}
	}
}

func TestTheLargestBodiesPass(t *testing.T) {
	s := memory.New(memory.Config{})
	for name, line := range map[string]string{
		"plain":   `{"body":"` + strings.Repeat("x", pawl.MaxBody) + `"}`,
		"base64":  `{"body_base64":"` + strings.Repeat("AAAA", pawl.MaxBody/3) + `AA=="}`,
		"escaped": `{"body":"` + strings.Repeat(`\u0000`, pawl.MaxBody) + `"}`,
	} {
		sent, err := (&send.Lines{Store: s, Topic: "t"}).Run(t.Context(), strings.NewReader(line))
		if err != nil || sent.Appended != 1 {
			t.Errorf("%s: %+v, %v", name, sent, err)
		}
	}
}

func BenchmarkLines(b *testing.B) {
	line := `{"topic":"mail","key":"customer-4711","body":"{\"order\":12345,\"to\":\"someone@example.com\",\"n\":1.10}"}` +
		"\n"
	text := strings.Repeat(line, 10_000)
	lines := 0
	for b.Loop() {
		if _, err := (&send.Lines{}).Run(b.Context(), strings.NewReader(text)); err != nil {
			b.Fatal(err)
		}
		lines += 10_000
	}
	b.ReportMetric(float64(lines)/b.Elapsed().Seconds(), "lines/s")
}

// strict is a store that takes no unique keys, and answers line by line; early says so
// before it is asked to append.
type strict struct {
	store.Store
	early bool
}

func (s *strict) Unwrap() store.Store { return s.Store }

func (s *strict) Describe() store.Description {
	d := store.Describe(s.Store)
	if s.early {
		d.Refuses = s.refuses
	}
	return d
}

func (s *strict) refuses(m *pawl.Message) error {
	if m.Unique.Key != "" {
		return &store.Error{Op: "append", Code: store.ErrUnsupported}
	}
	return nil
}

func (s *strict) Append(ctx context.Context, b store.Batch[pawl.Message]) ([]store.Receipt, error) {
	receipts := make([]store.Receipt, len(b.Items))
	for i, m := range b.Items {
		if receipts[i].Err = s.refuses(&m); receipts[i].Err == nil {
			rs, err := s.Store.Append(ctx, store.NewBatch(m))
			if err != nil {
				return nil, err
			}
			receipts[i] = rs[0]
		}
	}
	return receipts, nil
}

// The count is that of what is stored, also where a store refuses lines one by one, and
// the lines that it refuses can be skipped like any other.
func TestLinesThatTheStoreRefuses(t *testing.T) {
	three := `{"id":"1"}` + "\n" + `{"id":"2","unique_key":"u"}` + "\n" + `{"id":"3"}` + "\n"
	run := func(early, skip bool) (sent send.Sent, ids []string, skipped int, err error) {
		s := &strict{memory.New(memory.Config{}), early}
		sender := send.Lines{Store: s, Topic: "t"}
		if skip {
			sender.Bad = func(*lines.Error) bool { skipped++; return true }
		}
		// All three come in one batch.
		in, out := io.Pipe()
		go func() { _, _ = io.WriteString(out, three); _ = out.Close() }()
		sent, err = sender.Run(t.Context(), in)
		return sent, stored(t, s), skipped, err
	}
	for _, early := range []bool{true, false} {
		sent, ids, skipped, err := run(early, true)
		if err != nil || sent.Appended != 2 || sent.Skipped != 1 || sent.Through != 3 || skipped != 1 || len(ids) != 2 {
			t.Errorf("early %v, skipping: %+v, %v; stored %v", early, sent, err, ids)
		}
		sent, ids, _, err = run(early, false)
		var bad *lines.Error
		if !errors.As(err, &bad) || bad.Line != 2 || sent.Appended != int64(len(ids)) {
			t.Errorf("early %v: %+v, %v; stored %v", early, sent, err, ids)
		}
		if early && (sent.Through != 1 || len(ids) != 1 || len(sent.Refused) > 0) {
			t.Errorf("nothing is to be stored behind a line that is refused: %+v; stored %v", sent, ids)
		}
		if !early && (fmt.Sprint(sent.Refused) != "[2]" || sent.Through != int64(len(ids))+1) {
			t.Errorf("what is stored behind it is to be told: %+v; stored %v", sent, ids)
		}
	}
}
