package convert

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// runs are the rows of pawl convert runs.
func (r *rig) runs() (rows []runState, cells [][]string) {
	r.t.Helper()
	err := listRuns(r.t.Context(), &pipeline.Invocation{
		Open: func(context.Context, string, bool) (store.Store, error) { return r.store, nil },
		Rows: func(columns []string, all any, row func(int) []string) error {
			rows, _ = all.([]runState)
			for i := range rows {
				if cells = append(cells, row(i)); len(cells[i]) != len(columns) {
					r.t.Errorf("%d cells for %d columns", len(cells[i]), len(columns))
				}
			}
			return nil
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return rows, cells
}

func TestRunsAreListed(t *testing.T) {
	r := newRig(t)
	r.write("good.html", "<h1>Good</h1>")
	r.write("broken.docx", "no package")
	if rows, _ := r.runs(); len(rows) != 0 {
		t.Fatalf("before the first run: %+v", rows)
	}
	if _, err := r.run(t.Context(), nil); code(err) != pipeline.ExitPartly {
		t.Fatal(err)
	}
	rows, cells := r.runs()
	if len(rows) != 1 || rows[0].Out != r.out || rows[0].State != done || rows[0].Completed != 1 ||
		rows[0].PermanentFailure != 1 {
		t.Errorf("after a run with a failure: %+v", rows)
	}
	if got := cells[0][2:5]; got[0] != "2" || got[1] != "1" || got[2] != "1" {
		t.Errorf("files, done and failed are %q", got)
	}
}

func TestAKilledRunIsNotRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, store: memory.New(memory.Config{})}
		defer func() { _ = r.store.Close() }()
		one := &run{out: "/out", most: 2, marks: r.store.(store.Shared), hand: newHand(4), id: "1"} //nolint:forcetypeassert // it is
		one.stats.began = time.Now()
		one.note(running)
		time.Sleep(silentFor)
		if rows, _ := r.runs(); rows[0].State != running {
			t.Errorf("it is %s while it writes", rows[0].State)
		}
		time.Sleep(time.Second)
		if rows, _ := r.runs(); rows[0].State != interrupted {
			t.Errorf("it is %s long after it has written last", rows[0].State)
		}
	})
}
