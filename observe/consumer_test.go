package observe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// halting is a writer that fails once, half-way through a line.
type halting struct {
	bytes.Buffer
	fail bool
}

func (h *halting) Write(p []byte) (int, error) {
	if h.fail {
		h.fail = false
		n, _ := h.Buffer.Write(p[:len(p)/2])
		return n, errors.New("disk full")
	}
	return h.Buffer.Write(p)
}

// A line of the audit that was torn harms no other one, and shows as a gap.
func TestAuditShowsItsGaps(t *testing.T) {
	var w halting
	a := NewAudit(&w)
	for seq := range uint64(5) {
		w.fail = seq == 2
		e := event("x")
		e.Seq = seq + 1
		if err := a.Consume(e); (err != nil) != (seq == 2) {
			t.Fatal(seq, err)
		}
	}
	var seen []uint64
	torn := 0
	lines := bufio.NewScanner(&w.Buffer)
	for lines.Scan() {
		var e Envelope
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			torn++
			continue
		}
		seen = append(seen, e.Seq)
		if e.MessageID != "x" || e.Type != "Download" {
			t.Errorf("%+v", e)
		}
	}
	if torn != 1 || len(seen) != 4 || seen[1] != 2 || seen[2] != 4 {
		t.Errorf("%d torn, sequence %v", torn, seen)
	}
}

func TestBoardKeepsTheNewestAndShowsTheNext(t *testing.T) {
	b := NewBoard(3)
	put := func(seqs ...uint64) {
		for _, s := range seqs {
			_ = b.Consume(Envelope{Seq: s})
		}
	}
	seqs := func(all []Envelope) (s []uint64) {
		for _, e := range all {
			s = append(s, e.Seq)
		}
		return s
	}
	put(1, 2)
	if got := seqs(b.Newest()); len(got) != 2 || got[0] != 1 {
		t.Fatal(got)
	}
	put(3, 4)
	now, w := b.Subscribe(2)
	if got := seqs(now); len(got) != 3 || got[0] != 2 || got[2] != 4 {
		t.Fatal(got)
	}
	put(5, 6, 7)
	w.Close()
	w.Close()
	put(8)
	var next []Envelope
	for e := range w.Events() {
		next = append(next, e)
	}
	if got := seqs(next); len(got) != 2 || got[0] != 5 || got[1] != 6 || w.Missed() != 1 {
		t.Fatal(got, w.Missed())
	}
}

func TestEventsAreLoggedAndCounted(t *testing.T) {
	var text strings.Builder
	log := LogEvents(slog.New(slog.NewTextHandler(&text, nil)))
	m, _ := metrics(t)
	for _, e := range []Envelope{
		event("x"), // the runtime logs failures of deliveries itself
		{Domain: DomainSystem, Type: "SystemHealth", Phase: PhaseStarted,
			Attrs: map[string]string{"component": "store"}},
		{Domain: DomainSystem, Type: "SystemHealth", Phase: PhaseCompleted, Err: "slow"},
		{Domain: DomainSystem, Type: "SystemError", Phase: PhaseFailed, Err: "away", Kind: "Service"},
	} {
		_, _ = log.Consume(e), m.Consume(e)
	}
	got := text.String()
	for _, want := range []string{
		"level=INFO msg=event event_type=SystemHealth phase=Started component=store",
		"level=WARN msg=event event_type=SystemHealth phase=Completed error=slow",
		"level=ERROR msg=event event_type=SystemError phase=Failed error_kind=Service error=away",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Count(got, "\n") != 3 {
		t.Errorf("too much:\n%s", got)
	}
	if n := figure(t, m.eventsEmitted.WithLabelValues("Engine", "Download", "Started")); n != 1 {
		t.Errorf("counted %v", n)
	}
}
