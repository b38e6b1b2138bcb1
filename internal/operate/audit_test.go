package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// longAudit is a store with a long audit, of which every entry has a body. It is
// told when all of it was read.
type longAudit struct {
	*memory.Store
	n, size int
	read    func()
}

// ListState yields the entries, not in the order of their times, and one of them
// again.
func (l longAudit) ListState(context.Context, string, int64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for i := range l.n + 1 {
			at := min(i^1, l.n-1)
			body := strings.Repeat("x", l.size)
			value, err := json.Marshal(AuditEntry{ID: fmt.Sprint(at), At: time.Unix(int64(at), 0), Action: "edit",
				OriginalBody: &body})
			if !yield(store.Entry{Key: fmt.Sprint(auditPrefix, at), Value: value}, err) {
				return
			}
		}
		l.read()
	}
}

// TestAuditKeepsTheLatestOnly: of a long audit it keeps what is asked for, and not
// all in memory.
func TestAuditKeepsTheLatestOnly(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, limit := range []int{1, 3, 0} {
		l := longAudit{Store: memory.New(memory.Config{}), n: 400, size: 10}
		var kept int64
		if limit > 0 {
			l.size = 64 << 10
			before := heap()
			l.read = func() { kept = heap() - before }
		} else {
			l.read = func() {}
		}
		all, err := ListAudit(t.Context(), l, AuditFilter{Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for i := range l.n {
			want = append(want, fmt.Sprint(i))
		}
		if limit > 0 {
			want = want[l.n-limit:]
		}
		for _, a := range all {
			got = append(got, a.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("of limit %d: %q", limit, got)
		}
		if kept > 8<<20 {
			t.Errorf("of limit %d %d MB are kept", limit, kept>>20)
		}
	}
}
