package sqlite

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// TestKilledProcesses: processes are killed in the middle of writing. What a call
// had returned before is there, what was acked stays acked, the file is whole.
func TestKilledProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path})
	retain := time.Hour // so that what was acked can be told from what was lost
	if _, err := s.Declare(t.Context(), store.Declaration{Name: "work", Retain: &retain}); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	appended, acked := map[string]bool{}, map[string]bool{}
	for range 4 {
		processes := []*process{start(t, "producer", path), start(t, "worker", path), start(t, "producer", path)}
		<-processes[1].facts // they are at work
		time.Sleep(time.Duration(50+random.IntN(200)) * time.Millisecond)
		for _, p := range processes {
			must(t, p.cmd.Process.Kill())
		}
		for _, p := range processes {
			for f := range p.facts {
				for _, id := range f.Appended {
					appended[id] = true
				}
				for _, id := range f.Acked {
					acked[id] = true
				}
			}
		}
		intact(t, path)
	}
	lost, undone := 0, 0
	for id := range appended {
		r, err := s.Get(t.Context(), id)
		if err != nil {
			lost++
		} else if acked[id] && r.State != store.Acked {
			undone++
		}
	}
	t.Logf("%d appended, %d acked", len(appended), len(acked))
	if len(acked) == 0 || lost > 0 || undone > 0 {
		t.Errorf("of %d messages %d are lost; of %d acked ones %d are not", len(appended), lost, len(acked), undone)
	}
}
