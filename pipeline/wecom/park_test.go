package wecom

import (
	"context"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/wecom/sim"
	"github.com/pawl-dev/pawl/store"
)

// gone is an account that the simulator does not know until somebody writes to it.
const gone = "wk-gone"

// An account that is not there is asked for once. `pawl wecom status` shows it, and a person has it pulled again.
func TestAParkedAccountIsPulledWhenAPersonAsks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.daemon("a", echo(nil), map[string]any{"accounts": []string{gone, sim.Account}})
	r.await("it is parked", func() bool { return r.account(gone).Parked != "" })
	for range 2 {
		before := r.account(sim.Account).LastPull
		r.await("the other one is pulled", func() bool { return r.account(sim.Account).LastPull.After(before) })
	}
	if n := r.sim.Counts()["kf/sync_msg 95000"]; n != 1 {
		t.Errorf("it was asked for %d times", n)
	}
	if row := r.statusOf(gone); row.State != "parked" || !strings.Contains(row.Why, "95000") {
		t.Errorf("status says %+v", row)
	}
	if _, err := r.pull(gone); err == nil || !strings.Contains(err.Error(), "95000") {
		t.Errorf("a pull of an account that is not there: %v", err)
	}
	if err := r.sim.Fault("callback_lost", "1"); err != nil {
		t.Fatal(err)
	}
	r.sim.Say(gone, "wm0", "0")
	out, err := r.pull(gone)
	if err != nil || out != "pulled wk-gone: 1 message\n" {
		t.Errorf("a pull of an account that is there now: %q, %v", out, err)
	}
	r.await("it is answered", func() bool { return len(r.sim.Sent()) == 1 })
	if row := r.statusOf(gone); row.State != "running" || row.Why != "" || row.CursorAge == nil {
		t.Errorf("status says %+v", row)
	}
}

// A callback ends the parking of its account, too.
func TestAParkedAccountIsPulledWhenItRings(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.daemon("a", echo(nil), map[string]any{"accounts": []string{gone}})
	r.await("it is parked", func() bool { return r.account(gone).Parked != "" })
	r.sim.Say(gone, "wm0", "0")
	r.await("it is answered", func() bool { return len(r.sim.Sent()) == 1 })
	r.await("it is not parked any more", func() bool {
		row := r.statusOf(gone)
		return row.State == "running" && row.LastDoorbell != nil
	})
}

// Who asks while no daemon runs is told so; nothing is lost: the daemon that starts later pulls.
func TestAPullWithoutADaemon(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := r.invocation(map[string]any{"wait": time.Millisecond}, sim.Account)
	var out strings.Builder
	in.Document = func(_ any, text func(io.Writer) error) error { return text(&out) }
	if err := runPull(t.Context(), in); err != nil || !strings.Contains(out.String(), "no daemon has pulled it yet") {
		t.Errorf("%q, %v", out.String(), err)
	}
	waiting := 0
	look, _ := store.As[store.Inspector](r.store)
	for one, err := range look.List(t.Context(), store.Filter{Topic: "kefu.pull"}) {
		if waiting++; err != nil || !strings.Contains(string(one.Body), `"unpark":true`) {
			t.Errorf("%s, %v", one.Body, err)
		}
	}
	if waiting != 1 {
		t.Errorf("%d pulls wait", waiting)
	}
}

// deafStore is a store that does not answer who looks at its messages.
type deafStore struct{ store.Store }

func (deafStore) Get(context.Context, string) (store.Record, error) {
	return store.Record{}, store.ErrUnavailable
}

func (deafStore) List(context.Context, store.Filter) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) { yield(store.Record{}, store.ErrUnavailable) }
}

// Accounts are shown although the store of the messages does not answer; their backlog is not 0 then.
func TestTheStatusWithoutTheStoreOfTheMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	now := account{Cursor: "c"}
	if err := r.site().put(t.Context(), "wk1", &now); err != nil {
		t.Fatal(err)
	}
	if row := r.statusOf("wk1"); row.Backlog == nil || *row.Backlog != 0 {
		t.Errorf("while it answers: %+v", row)
	}
	marks, _ := store.As[store.Shared](r.store, store.CanMarks)
	in := r.invocation(nil)
	in.Open = func(context.Context, string, bool) (store.Store, error) {
		return struct {
			deafStore
			store.Shared
		}{deafStore{r.store}, marks}, nil
	}
	var said strings.Builder
	in.Stderr = &said
	in.Rows = func(_ []string, rows any, row func(int) []string) error {
		if all := rows.([]accountRow); len(all) != 1 || all[0].Backlog != nil || row(0)[5] != "-" {
			t.Errorf("%+v", all)
		}
		return nil
	}
	if err := runStatus(t.Context(), in); err != nil || !strings.Contains(said.String(), "the backlog is not known") {
		t.Errorf("%q, %v", said.String(), err)
	}
}

func (r *rig) account(id string) account {
	r.t.Helper()
	now, err := r.site().get(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return now
}

// invocation is one of a command of the pipeline.
func (r *rig) invocation(flags map[string]any, args ...string) *pipeline.Invocation {
	return &pipeline.Invocation{
		Args: args, Stderr: io.Discard, Flags: pipeline.NewValues([]pipeline.Flag{{Name: "pipeline"},
			{Name: "wait", Type: pipeline.Duration}, {Name: "to"}}, flags, nil),
		Pipelines: func(string) (map[string]pipeline.Section, error) {
			return map[string]pipeline.Section{"kefu": r.section(nil)}, nil
		},
		Open: func(context.Context, string, bool) (store.Store, error) { return r.store, nil },
	}
}

// pull is `pawl wecom pull`; it returns what is printed.
func (r *rig) pull(id string) (string, error) {
	var out strings.Builder
	in := r.invocation(map[string]any{"wait": time.Minute}, id)
	in.Document = func(_ any, text func(io.Writer) error) error { return text(&out) }
	err := runPull(r.t.Context(), in)
	return out.String(), err
}

// statusOf is the row of an account that `pawl wecom status` shows.
func (r *rig) statusOf(id string) (row accountRow) {
	r.t.Helper()
	in := r.invocation(nil)
	in.Rows = func(_ []string, rows any, _ func(int) []string) error {
		for _, one := range rows.([]accountRow) {
			if one.ID == id {
				row = one
			}
		}
		return nil
	}
	if err := runStatus(r.t.Context(), in); err != nil {
		r.t.Fatal(err)
	}
	return row
}
