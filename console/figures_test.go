package console

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/internal/operate"
)

// TestFigures keeps an hour and a day of a topic, and tells how fast it goes.
func TestFigures(t *testing.T) {
	counts := map[string][]uint64{"mail": {0, 0, 0}}
	f := figures{past: map[string]*past{}, changed: make(chan struct{}),
		waits: func() ([]float64, map[string][]uint64) {
			return []float64{.1, 1}, map[string][]uint64{"mail": {counts["mail"][0], counts["mail"][1], counts["mail"][2]}}
		}}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const hours = 30
	for i := range hours * int(time.Hour/restEvery) {
		counts["mail"][0] += 60
		counts["mail"][1] += 40
		f.keep([]operate.Topic{{Topic: "mail", AckedTotal: int64(i) * 20, AppendedTotal: int64(i) * 30, Dead: int64(i),
			RetriedTotal: int64(i) * 4}}, nil, now.Add(time.Duration(i)*restEvery))
	}
	fine, coarse := f.of("mail", false), f.of("mail", true)
	if len(fine) != fineSamples || len(coarse) != manySamples || f.of("other", false) != nil {
		t.Errorf("%d and %d samples", len(fine), len(coarse))
	}
	if r := ratesOf(fine); r.Acked != 2 || r.Appended != 3 || r.Failed != .5 || r.NewDead != int64(fineSamples)-1 {
		t.Errorf("%+v", r)
	}
	if w := f.waitOf("mail", "other"); w != (wait{.1, 1, true}) {
		t.Errorf("%+v", w)
	}
	if sum := f.sum([]string{"mail", "mail"}, false); sum[5].Acked != 2*fine[5].Acked {
		t.Error("two topics are not twice one")
	}
	if w := f.waitOf("other"); w.Measured {
		t.Errorf("%+v", w)
	}
}

// TestFiguresAreOfNow looks at a topic each two seconds: what has just died is counted at once, not only with the next
// sample that is kept.
func TestFiguresAreOfNow(t *testing.T) {
	f := figures{past: map[string]*past{}, changed: make(chan struct{})}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 600 {
		f.keep([]operate.Topic{{Topic: "mail", Dead: int64(i)}}, nil, now.Add(time.Duration(i)*tickEvery))
		if r := ratesOf(f.of("mail", false)); r.NewDead != int64(i) {
			t.Fatalf("%d have died after %d looks", r.NewDead, i)
		}
	}
	if n := len(f.of("mail", false)); n != int(600*tickEvery/restEvery)+1 {
		t.Errorf("%d samples are kept", n)
	}
}

func TestLimitsThatHoldNothingAreNotShown(t *testing.T) {
	v := &view{Lang: english}
	for _, c := range []struct {
		limit roster.Limit
		want  string
	}{
		{roster.Limit{Limit: "api", Shared: true}, ""},
		{roster.Limit{Limit: "gate", Window: noWindow}, ""},
		{roster.Limit{Limit: "api", PerSecond: 5, ByKey: true}, "api: 5/s, by key"},
		{roster.Limit{Limit: "llm", Concurrency: 64, Window: 10, HeldBack: 3}, "llm: 64 at once, window 10.0, 3 held back"},
	} {
		if got := limitNow(v, c.limit); got != c.want {
			t.Errorf("%+v: %q, not %q", c.limit, got, c.want)
		}
	}
}
