package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/sqlite"
)

func newTracer(t *testing.T, c Config) *Tracer {
	t.Helper()
	c.Version = "1"
	tr, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { flush(t, tr) })
	return tr
}

// flush exports what is left.
func flush(t *testing.T, tr *Tracer) {
	t.Helper()
	if err := tr.provider.ForceFlush(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// carryOut has topics carried out until done reports true.
func carryOut(t *testing.T, tr *Tracer, s store.Store, done func() bool, topics ...dispatch.Topic) {
	t.Helper()
	for i := range topics {
		topics[i].Retries = policy.Retries{Attempts: 3, Base: time.Millisecond, Max: time.Millisecond}
	}
	d, err := dispatch.New(s, dispatch.Config{Topics: tr.Topics(topics, func(string) time.Duration { return time.Minute }),
		Logger: slog.New(slog.DiscardHandler), Unregistered: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	for !done() && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	if ctx.Err() != nil {
		t.Error("not done within a minute")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// failingLives has n messages: of ten, one fails once, one dies and is replayed.
func failingLives(t *testing.T, s store.Store, protocol string, n int) {
	c, overHTTP, overGRPC := newCollector(t)
	at := map[string]string{HTTP: overHTTP, GRPC: overGRPC}[protocol]
	tr := newTracer(t, Config{OTLP: at, Protocol: protocol, Sample: 0.01, Headers: map[string]string{"x-auth": "secret"}})
	s = tr.Store(s)
	msgs := make([]pawl.Message, n)
	for i := range msgs {
		msgs[i] = pawl.Message{ID: fmt.Sprintf("m%d", i), Topic: "t", Body: []byte{byte('0' + i%10)}}
	}
	if err := store.Send(t.Context(), s, msgs...); err != nil {
		t.Fatal(err)
	}
	var acked, dead atomic.Int64
	topic := dispatch.Topic{Name: "t", Handler: pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error {
		switch {
		case d.Body[0] == '0' && d.Attempt == 1:
			return errors.New("at first")
		case d.Body[0] == '1' && d.Replays == 0:
			dead.Add(1)
			return pawl.Permanent(errors.New("at all"))
		}
		acked.Add(1)
		return nil
	})}
	letters, _ := store.As[store.DeadLetters](s)
	listed := func() (ids []string) {
		for r, err := range letters.Dead(t.Context(), store.DeadFilter{Topic: "t", Limit: n}) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID)
		}
		return ids
	}
	carryOut(t, tr, s, func() bool { return int(acked.Load()) == n*9/10 && len(listed()) == n/10 }, topic)
	if refused, err := letters.Replay(t.Context(), "", listed()...); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	carryOut(t, tr, s, func() bool { return int(acked.Load()) == n }, topic)
	flush(t, tr)
	c.checkFailures(t, msgs)
	counts := map[string]float64{}
	tr.Spans(func(v float64, result ...string) { counts[result[0]] = v })
	if counts["made"] != counts["exported"] || counts["failed"] != 0 {
		t.Errorf("spans %v", counts)
	}
	if c.about["service.name"] != "pawl" || c.about["service.version"] != "1" || slices.Contains(c.auth, "") {
		t.Errorf("the resource is %v, the headers are %q", c.about, c.auth)
	}
}

// checkFailures checks the spans of the messages of failingLives.
func (c *collector) checkFailures(t *testing.T, msgs []pawl.Message) {
	t.Helper()
	sampled, n, all := 0, len(msgs), c.byMessage()
	for i := range n {
		spans := all[msgs[i].ID]
		send, process, settle := spans["send t"], spans["process t"], spans["settle t"]
		if i%10 > 1 {
			if len(process) > 0 {
				sampled++
			}
			continue
		}
		if len(send) != 1 || len(process) != 2 || len(settle) != 2 {
			t.Fatalf("%s has %d sends, %d attempts, %d settles; want 1, 2, 2", msgs[i].ID, len(send), len(process),
				len(settle))
		}
		if !slices.Equal(events(process[0]), []string{"decision"}) || process[0].GetStatus().GetMessage() == "" {
			t.Fatalf("%s: a failed attempt has the events %v", msgs[i].ID, events(process[0]))
		}
		for j := range process {
			if !links(process[j], send[0]) || !below(process[j], send[0]) || !below(settle[j], process[j]) {
				t.Fatalf("%s: attempt %d is not linked to its send", msgs[i].ID, j+1)
			}
		}
		if i%10 == 0 {
			if !links(process[1], settle[0]) || number(process[1], "pawl.attempt") != 2 {
				t.Fatalf("%s: the second attempt is not linked to the settle of the first one", msgs[i].ID)
			}
			continue
		}
		replay := spans["replay t"]
		if len(replay) != 1 || !links(process[1], replay[0]) || !links(replay[0], settle[0]) {
			t.Fatalf("%s: the replay is not linked with the dead letter and what followed", msgs[i].ID)
		}
	}
	if sampled > n/10 {
		t.Errorf("%d of %d that had no fault were exported at a share of 0.01", sampled, n*8/10)
	}
}

func TestFailuresAreKept(t *testing.T) {
	t.Run("memory", func(t *testing.T) { failingLives(t, memory.New(memory.Config{}), HTTP, 10_000) })
	t.Run("sqlite", func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		failingLives(t, s, GRPC, 200)
	})
}

// An attempt is linked into the trace of whoever sent the message, and what it emits is below it.
func TestForeignTraceGoesOn(t *testing.T) {
	const parent, id = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "0af7651916cd43dd8448eb211c80319c"
	c, at, _ := newCollector(t)
	tr := newTracer(t, Config{OTLP: at})
	plain := memory.New(memory.Config{})
	s := tr.Store(plain)
	headers := map[string]string{"traceparent": parent, "tracestate": "other=1"}
	for _, err := range []error{
		store.Send(t.Context(), s, pawl.Message{Topic: "a", ID: "ours", Headers: headers}),
		store.Send(t.Context(), plain, pawl.Message{Topic: "a", ID: "theirs", Headers: headers}),
		store.Send(t.Context(), plain, pawl.Message{Topic: "a", ID: "without"}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var done atomic.Int64
	var state atomic.Value
	carryOut(t, tr, s, func() bool { return done.Load() == 6 },
		dispatch.Topic{Name: "a", Handler: pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) error {
			d.Emit(pawl.Message{Topic: "b"})
			d.Hold(time.Millisecond)
			_, step := Start(ctx, "fetch", slog.String("url.full", "http://x"), slog.Int("n", 3))
			step.End(errors.New("refused"))
			done.Add(1)
			return nil
		})},
		dispatch.Topic{Name: "b", Batch: pawl.BatchHandlerFunc(func(_ context.Context, ds []*pawl.Delivery) []error {
			for _, d := range ds {
				if d.Headers["tracestate"] != "" {
					state.Store(d.Headers["tracestate"])
				}
			}
			done.Add(int64(len(ds)))
			return make([]error, len(ds))
		})})
	flush(t, tr)
	for _, m := range []string{"ours", "theirs"} {
		spans, emitted := c.of(m), c.of(pawl.EmitID(m, 0))
		if m == "ours" && (len(spans["send a"]) != 1 || fmt.Sprintf("%x", spans["send a"][0].GetParentSpanId()) !=
			"b7ad6b7169203331" || !below(spans["process a"][0], spans["send a"][0])) {
			t.Errorf("the send of ours is not below the caller: %v", spans)
		}
		if len(spans["process a"]) != 1 || len(emitted["send b"]) != 1 || len(emitted["process b"]) != 1 {
			t.Fatalf("%s: %d attempts, %d sends and %d attempts of what it emitted", m, len(spans["process a"]),
				len(emitted["send b"]), len(emitted["process b"]))
		}
		process := spans["process a"][0]
		if fmt.Sprintf("%x", process.GetTraceId()) != id || !slices.Equal(events(process), []string{"emit", "hold"}) {
			t.Errorf("%s has the trace %x and the events %v", m, process.GetTraceId(), events(process))
		}
		if !below(emitted["send b"][0], process) || !below(emitted["process b"][0], emitted["send b"][0]) {
			t.Errorf("%s: what was emitted is not below it", m)
		}
	}
	if state.Load() != "other=1" {
		t.Errorf("a handler saw the tracestate %v", state.Load())
	}
	if steps := c.named("fetch"); len(steps) != 2 || attr(steps[0], "url.full") != "http://x" ||
		number(steps[0], "n") != 3 || steps[0].GetStatus().GetMessage() != "refused" {
		t.Errorf("the steps are %v", steps)
	}
	if n := len(c.of("without")); n != 0 {
		t.Errorf("%d spans of a message without a trace, at a share of 0", n)
	}
}

// A message without a trace has one that follows from its id, in logs and spans alike.
func TestTraceFollowsFromTheID(t *testing.T) {
	c, at, _ := newCollector(t)
	tr := newTracer(t, Config{OTLP: at, Sample: 1})
	s := memory.New(memory.Config{})
	if err := store.Send(t.Context(), s, pawl.Message{Topic: "a", ID: "x"}); err != nil {
		t.Fatal(err)
	}
	var seen atomic.Value
	carryOut(t, tr, tr.Store(s), func() bool { return seen.Load() != nil }, dispatch.Topic{Name: "a",
		Handler: pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error {
			seen.Store(d.Headers["traceparent"])
			return nil
		})})
	flush(t, tr)
	process := c.of("x")["process a"]
	want := observe.TraceOf("x")
	if len(process) != 1 || fmt.Sprintf("%x", process[0].GetTraceId()) != want ||
		!strings.HasPrefix(seen.Load().(string), fmt.Sprintf("00-%s-%x-01", want, process[0].GetSpanId())) {
		t.Errorf("the spans are %v, the handler saw %v", process, seen.Load())
	}
}

// What took longer than the objective is kept at a share of 0, and so is what a dying process left.
func TestSlowAndRescuedAreKept(t *testing.T) {
	c, at, _ := newCollector(t)
	tr := newTracer(t, Config{OTLP: at})
	now := time.Now()
	plain := memory.New(memory.Config{Now: func() time.Time { return now }})
	s := tr.Store(plain)
	for _, id := range []string{"slow", "quick", "rescued"} {
		if err := store.Send(t.Context(), s, pawl.Message{Topic: id, ID: id}); err != nil {
			t.Fatal(err)
		}
		if id == "slow" {
			now = now.Add(2 * time.Minute) // the objective is a minute
		}
	}
	if _, err := plain.Claim(t.Context(), []store.Want{{Topic: "rescued", Limit: 1}},
		store.Lease{For: time.Second, Owner: "o"}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Second)
	var done atomic.Int64
	h := pawl.HandlerFunc(func(context.Context, *pawl.Delivery) error { done.Add(1); return nil })
	carryOut(t, tr, s, func() bool { return done.Load() == 3 }, dispatch.Topic{Name: "slow", Handler: h},
		dispatch.Topic{Name: "quick", Handler: h}, dispatch.Topic{Name: "rescued", Handler: h})
	flush(t, tr)
	for id, want := range map[string]string{"slow": "slow", "quick": "", "rescued": "rescued"} {
		got := ""
		if p := c.of(id)["process "+id]; len(p) == 1 {
			got = attr(p[0], "pawl.kept")
		}
		if got != want {
			t.Errorf("%s was kept as %q, want %q", id, got, want)
		}
	}
}

// The variables of OpenTelemetry go before the configuration.
func TestEnvironment(t *testing.T) {
	_, at, _ := newCollector(t)
	for name, c := range map[string]struct {
		env  map[string]string
		otlp string
		want string // of the error; "off", or "on"
	}{
		"nothing":  {nil, "", "off"},
		"file":     {nil, at, "on"},
		"variable": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": at}, "", "on"},
		"disabled": {map[string]string{"OTEL_SDK_DISABLED": "true"}, at, "off"},
		"none":     {map[string]string{"OTEL_TRACES_EXPORTER": "none"}, at, "off"},
		"sampler": {map[string]string{"OTEL_TRACES_SAMPLER": "jaeger", "OTEL_EXPORTER_OTLP_PROTOCOL": "tcp"}, at,
			`OTEL_EXPORTER_OTLP_PROTOCOL is "tcp"`},
		"share": {map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"}, at,
			"a number from 0 to 1"},
		"address": {nil, "collector:4317", "must be a URL"},
	} {
		tr, err := New(t.Context(), Config{OTLP: c.otlp, Getenv: func(name string) string { return c.env[name] }})
		got := map[bool]string{true: "on", false: "off"}[tr != nil]
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		_ = tr.Close(t.Context())
	}
}

// Without a tracer nothing is wrapped, so it costs nothing.
func TestOffCostsNothing(t *testing.T) {
	var tr *Tracer
	s := memory.New(memory.Config{})
	if tr.Store(s) != store.Store(s) {
		t.Error("the store is wrapped")
	}
	topics := []dispatch.Topic{{Name: "a"}}
	if &tr.Topics(topics, nil)[0] != &topics[0] {
		t.Error("the topics are wrapped")
	}
	if n := testing.AllocsPerRun(100, func() {
		_, step := Start(t.Context(), "fetch")
		step.End(nil)
	}); n > 0 {
		t.Errorf("a step allocates %v times", n)
	}
}

// topicOf is a topic whose handler says what came.
func topicOf(name string, seen chan<- string) dispatch.Topic {
	return dispatch.Topic{Name: name, Handler: pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error {
		seen <- d.ID
		return nil
	})}
}
