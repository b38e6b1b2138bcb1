package operate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// The cause of a message is a code and whoever caused it, and no words of a handler pass for one.
func TestCauseIsACode(t *testing.T) {
	e := newExplained(t)
	e.append(pawl.Message{ID: "x"})
	wants := func(want string) {
		e.Helper()
		r, err := e.Get(e.Context(), "x")
		e.check(err)
		for name, form := range map[string]any{"explain": e.explain(), "detail": FormDetail(&r)} {
			text, err := json.Marshal(form)
			e.check(err)
			if !strings.Contains(string(text), `"cause":`+want) {
				e.Errorf("%s: %s; want %s", name, text, want)
			}
		}
	}
	wants(`{"code":"appended","by":""}`)
	e.settle(store.Settlement{Verdict: store.Release, Failure: store.Failure{Error: store.LimitedBy("mail")}})
	wants(`{"code":"limited","by":"mail"}`)
	e.settle(store.Settlement{Verdict: store.Release, Failure: store.Failure{Error: "draining"}})
	wants(`{"code":"released","by":"draining"}`)
	e.settle(store.Settlement{Verdict: store.Retry, Failure: store.Failure{Error: "released: limited by mail"}})
	wants(`null`)
}
