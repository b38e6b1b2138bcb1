package operate

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/store"
)

// TestMissingIDsDoNotFailAnOperation: many ids that are no dead letters, or are
// none any more, are refused, and the others done in one run.
func TestMissingIDsDoNotFailAnOperation(t *testing.T) {
	for name, gone := range map[string]bool{"never there": false, "gone since the plan": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const there, missing = 600, 2 * maxRefusals
				m := newMorgue(t, there+missing)
				sel := givenIDs(there + missing)
				if !gone {
					discard(t, m, sel.IDs[there:])
				}
				o := m.plan(t, sel)
				if gone {
					discard(t, m, sel.IDs[there:])
				}
				if err := m.run(t, t.Context(), o); err != nil || o.Done != there || o.Refused != missing ||
					o.Status != Done || len(o.Refusal) > maxRefusals {
					t.Fatalf("%v: %s, %d done, %d refused, %d of them remembered", err, o.Status, o.Done, o.Refused,
						len(o.Refusal))
				}
			})
		})
	}
}

func discard(t *testing.T, m *morgue, ids []string) {
	t.Helper()
	for len(ids) > 0 {
		n := min(len(ids), store.MaxBatch)
		if refused, err := m.Purge(t.Context(), ids[:n]...); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
		ids = ids[n:]
	}
}

// TestOperationGoesOnAfterManyRefusals: it fails after so many in one run; the
// next one has as many again.
func TestOperationGoesOnAfterManyRefusals(t *testing.T) {
	for name, sel := range map[string]Selection{"selected": {}, "given": givenIDs(2*maxRefusals + 500)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 2*maxRefusals + 500
				m := newMorgue(t, n)
				var bad []store.Edit
				for _, id := range givenIDs(n).IDs {
					if bad = append(bad, store.Edit{ID: id, Body: []byte("no JSON")}); len(bad) == 500 {
						if refused, err := m.Store.Edit(t.Context(), bad...); err != nil || len(refused) > 0 {
							t.Fatal(refused, err)
						}
						bad = nil
					}
				}
				o := m.plan(t, sel)
				o.Edit = ".x = 1"
				for run := 1; run < 3; run++ {
					if err := m.run(t, t.Context(), o); err == nil || o.Status != Failed ||
						o.Refused < int64(run*maxRefusals) {
						t.Fatalf("run %d: %v, %s with %d refused", run, err, o.Status, o.Refused)
					}
				}
				if err := m.run(t, t.Context(), o); err != nil || o.Refused != n || o.Status != Done {
					t.Fatalf("%v, %s with %d refused", err, o.Status, o.Refused)
				}
			})
		})
	}
}

// TestResumeIsInTheAudit: who went on has an entry of its own.
func TestResumeIsInTheAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMorgue(t, 3)
		o := m.plan(t, Selection{})
		m.dieAt = 4
		if err := m.run(t, t.Context(), o); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		m.dead, m.dieAt = false, 0
		o, err := m.operations(t).Get(t.Context(), o.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := (&Runner{Operations: m.operations(t), Who: "another"}).Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		log, err := ListAudit(t.Context(), m, AuditFilter{Action: "operations resume"})
		if err != nil || len(log) != 1 || log[0].Who != "another" || log[0].Target != o.ID || log[0].Count != 3 {
			t.Fatalf("audit %+v, %v", log, err)
		}
	})
}

// TestEditAuditsWhatWasTaken: an entry says that a letter was edited only when
// the store has taken that.
func TestEditAuditsWhatWasTaken(t *testing.T) {
	for name, c := range map[string]struct {
		dieAt int
		race  bool
		want  AuditResult
	}{"taken": {0, false, AuditResult{Done: 1}}, "refused": {0, true, AuditResult{Refused: 1}},
		"died before": {2, false, AuditResult{}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMorgue(t, 1)
				m.dieAt = c.dieAt
				changed, err := EditLetter(t.Context(), m.operations(t), "00000", "who", "by hand", "",
					func([]byte) ([]byte, error) {
						if c.race {
							if _, err := m.Store.Replay(t.Context(), "", "00000"); err != nil {
								t.Fatal(err)
							}
						}
						return []byte("new"), nil
					})
				if changed != (c.want.Done == 1) || changed != (err == nil) {
					t.Fatalf("changed %v, %v", changed, err)
				}
				log, err := ListAudit(t.Context(), m, AuditFilter{})
				if err != nil || len(log) != 1 || log[0].Result != c.want ||
					log[0].OriginalSHA256 != hashOf([]byte(`{"n":0,"price":1.10}`)) {
					t.Fatalf("audit %+v, %v", log, err)
				}
			})
		})
	}
}
