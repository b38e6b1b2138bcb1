package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/store"
)

// TestAllCausesOfAFilter: what matches a filter is counted over all of its causes, and a cause leads to its rule.
func TestAllCausesOfAFilter(t *testing.T) {
	r := newRig(t, nil)
	letters, _ := store.As[store.DeadLetters](r.store)
	now := time.Now()
	for i := range 4 {
		at := now.Add(-time.Duration(i) * 24 * time.Hour)
		refused, err := letters.Import(t.Context(), store.Record{Message: pawl.Message{ID: fmt.Sprint("m", i), Topic: "sms"},
			State: store.IsDead, EnqueuedAt: at, DeadAt: at, Kind: pawl.Kind(fmt.Sprint("Kind", i%2)),
			Fingerprint: fmt.Sprint("f", i), Reason: fmt.Sprint("cause ", i)})
		if err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
	}
	page := r.get(secretOf(api.Operator), "/console/dead/group?topic=sms")
	first := utc(now.Add(-72 * time.Hour))
	if !strings.Contains(page, "<b>4</b>") || !strings.Contains(page, first) || strings.Contains(page, "?kind=Kind") ||
		strings.Contains(page, "this cause is new") {
		t.Errorf("all of them:\n%s", page)
	}
	page = r.get(secretOf(api.Operator), "/console/dead/group?topic=sms&fingerprint=f1")
	if !strings.Contains(page, "<b>1</b>") || !strings.Contains(page, "this cause is new") {
		t.Errorf("one of them:\n%s", page)
	}
	if _, after, _ := strings.Cut(page, `href="/console/policy?kind=`); !strings.HasPrefix(after, "Kind1") {
		t.Errorf("it does not lead to the rule of its kind:\n%s", page)
	}
	r.get(secretOf(api.Viewer), "/console/policy?kind=Kind1")
}
