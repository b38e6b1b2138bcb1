package doctor

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/mirror"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// TestDoctorSaysAllOfATopic: a pause, a missing worker and dead letters hide nothing
// of one another.
func TestDoctorSaysAllOfATopic(t *testing.T) {
	pause := &store.Pause{Since: time.Now(), By: "ann"}
	for name, c := range map[string]struct {
		topic store.TopicStats
		want  []string
	}{
		"all": {store.TopicStats{Waiting: 3, Dead: 2, Paused: pause},
			[]string{"paused by ann", "no worker is known to serve the topic", "2 dead letters"}},
		"no worker, dead": {store.TopicStats{Waiting: 3, Dead: 2},
			[]string{"no worker is known to serve the topic", "2 dead letters"}},
		"paused, dead": {store.TopicStats{Dead: 2, Paused: pause}, []string{"paused by ann", "2 dead letters"}},
		"slow, dead": {store.TopicStats{Waiting: 1, Leased: 1, Dead: 2, OldestWaiting: 2 * time.Hour},
			[]string{"waiting for 2h0m0s", "2 dead letters"}},
		"well": {store.TopicStats{Leased: 1}, []string{"no dead letters"}},
		"paused, for long": {store.TopicStats{Waiting: 1, Leased: 1, OldestWaiting: 2 * time.Hour, Paused: pause},
			[]string{"paused by ann"}},
	} {
		d := &Doctor{}
		c.topic.Name = "t"
		d.topic(t.Context(), memory.New(memory.Config{}), &c.topic, map[string]bool{})
		if len(d.found) != len(c.want) {
			t.Errorf("%s: %+v", name, d.found)
			continue
		}
		for i, f := range d.found {
			if !strings.Contains(f.Detail, c.want[i]) || f.Check != "topic t" || (f.Fix == "") != (name == "well") {
				t.Errorf("%s: %+v; want %q", name, f, c.want[i])
			}
		}
	}
}

// TestDoctorKnowsADamagedFile from a server that does not answer.
func TestDoctorKnowsADamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t"})); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(b); i++ {
		b[i] = byte(i * 7)
	}
	for name, c := range map[string]struct {
		content []byte
		fix     string
	}{
		"damaged":  {b, "restore a backup"},
		"no store": {[]byte(strings.Repeat("no database ", 100)), "is the path right?"},
	} {
		if err := os.WriteFile(path, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		d := &Doctor{Open: open.Config{URL: "sqlite:" + path}}
		found, opened := d.Examine(t.Context())
		if opened != nil {
			_ = opened.Close()
		}
		var fix strings.Builder
		for _, f := range found {
			if f.Verdict == Ill {
				fix.WriteString(f.Fix)
			}
		}
		if !strings.Contains(fix.String(), c.fix) || strings.Contains(fix.String(), "password") {
			t.Errorf("%s: fix %q in %+v", name, fix.String(), found)
		}
	}
}

// examined is what the doctor finds of a store, by check.
func examined(t *testing.T, d *Doctor) map[string]Finding {
	t.Helper()
	found, opened := d.Examine(t.Context())
	if opened != nil {
		t.Cleanup(func() { _ = opened.Close() })
	}
	by := map[string]Finding{}
	for _, f := range found {
		by[f.Check] = f
	}
	return by
}

// TestDoctorAsksTheBrokers: a cluster that is not there is not well, and one that is has
// no clock to compare.
func TestDoctorAsksTheBrokers(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "kafka://" + nobody.Addr().String()
	_ = nobody.Close()
	found := examined(t, &Doctor{Open: open.Config{URL: url}})
	if f := found["store"]; f.Verdict != Ill {
		t.Errorf("nobody listens: %+v", found)
	}
	found = examined(t, &Doctor{Open: open.Config{URL: fakeBroker(t)}})
	if found["store"].Verdict != Well || found["latency"].Verdict == "" || found["clock"].Verdict != Unknown {
		t.Errorf("a broker is there: %+v", found)
	}
}

// TestDoctorTellsANewerSchema, which was "up to date", while no other command opened the store.
func TestDoctorTellsANewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO pawl_migration VALUES (99, 'future', 0)"); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	f := examined(t, &Doctor{Open: open.Config{URL: "sqlite:" + path}})["schema"]
	if f.Verdict != Ill || !strings.Contains(f.Detail, "version 99") || !strings.Contains(f.Fix, "newer version") {
		t.Errorf("%+v", f)
	}
}

// TestDoctorChangesNoSchema: it looks at a file without a schema, and leaves it so.
func TestDoctorChangesNoSchema(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "pawl.db")
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.MigrateDown(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	before, err := s.Migrations(t.Context())
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	found := examined(t, &Doctor{Open: open.Config{URL: "sqlite:" + path + "?fallback=sqlite:" + filepath.Join(folder,
		"spill.db")}})
	if f := found["store"]; f.Verdict != Ill || !strings.Contains(f.Detail, "spill.db") {
		t.Errorf("the fallback is not there, and %+v", found)
	}
	found = examined(t, &Doctor{Open: open.Config{URL: "sqlite:" + path}})
	if f := found["schema"]; f.Verdict != Worth || !strings.Contains(f.Fix, "migrate up") {
		t.Errorf("without a schema: %+v", found)
	}
	if files, err := filepath.Glob(filepath.Join(folder, "*.db")); err != nil || len(files) != 1 {
		t.Errorf("it made files: %q, %v", files, err)
	}
	again, err := open.Open(t.Context(), open.Config{URL: "sqlite:" + path, NoCheck: true, Look: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	m, _ := store.As[store.Migrator](again)
	if after, err := m.Migrations(t.Context()); err != nil || !reflect.DeepEqual(after, before) {
		t.Errorf("the schema was %+v and is %+v, %v", before, after, err)
	}
}

// silent is a store whose state cannot be listed.
type silent struct{ *memory.Store }

func (silent) ListState(context.Context, string, int64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		yield(store.Entry{}, &store.Error{Op: "list", Code: store.ErrUnavailable})
	}
}

// TestDoctorAndTheWorkers: one that drains claims nothing, and of those that cannot be
// listed it says nothing.
func TestDoctorAndTheWorkers(t *testing.T) {
	s := memory.New(memory.Config{})
	for _, draining := range []bool{false, true} {
		if _, err := s.PutState(t.Context(), "worker/"+"w", fmt.Appendf(nil, `{"draining":%v,"topics":[{"topic":"t"}]}`,
			draining), store.AnyVersion, "w"); err != nil {
			t.Fatal(err)
		}
		if served := (&Doctor{}).workers(t.Context(), s); served["t"] == draining {
			t.Errorf("draining %v: served %v", draining, served)
		}
	}
	d := &Doctor{}
	served := d.workers(t.Context(), silent{s})
	d.topic(t.Context(), memory.New(memory.Config{}), &store.TopicStats{Topic: store.NewTopic("t"), Waiting: 3,
		OldestWaiting: time.Second}, served)
	if len(d.found) != 2 || d.found[0].Verdict != Unknown || d.found[1].Verdict != Unknown ||
		strings.Contains(d.found[1].Detail, "no worker") {
		t.Errorf("found %+v", d.found)
	}
}

// TestDoctorAndResults: nobody is to work on what a program reads whole.
func TestDoctorAndResults(t *testing.T) {
	s, d := memory.New(memory.Config{}), &Doctor{}
	if _, err := s.PutState(t.Context(), "worker/w", []byte(`{"topics":[{"topic":"found","read_whole":true}]}`),
		store.AnyVersion, "w"); err != nil {
		t.Fatal(err)
	}
	served := d.workers(t.Context(), s)
	d.topic(t.Context(), s, &store.TopicStats{Topic: store.NewTopic("found"), Waiting: 3, OldestWaiting: 9 * time.Hour},
		served)
	if last := d.found[len(d.found)-1]; last.Verdict != Well || last.Detail != "3 results, which their program reads" {
		t.Errorf("found %+v", d.found)
	}
}

// TestDoctorAndTraffic: a topic may have to do with another store, which has to be there then.
func TestDoctorAndTraffic(t *testing.T) {
	there := open.Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "new.db")}
	made, err := open.Open(t.Context(), there)
	if err == nil {
		err = made.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		stage   mirror.Stage
		mirror  string
		stats   store.TopicStats
		verdict Verdict
		says    string
		other   Verdict // of the mirror
	}{
		"moved": {mirror.Moved, there.URL, store.TopicStats{}, Well,
			"it has moved to sqlite:new", Well},
		"moved, left": {mirror.Moved, there.URL, store.TopicStats{Waiting: 2}, Ill,
			"2 messages that came later", Well},
		"moved, away": {mirror.Moved, there.URL + ".not", store.TopicStats{}, Well,
			"it has moved", Ill},
		"moved, not named": {mirror.Moved, "", store.TopicStats{}, Well, "it has moved", Ill},
		"draining": {mirror.Draining, there.URL, store.TopicStats{Waiting: 2, Leased: 1}, Worth,
			"it is moving", Well},
		"returning":     {mirror.Returning, there.URL, store.TopicStats{}, Worth, "it is coming back", Well},
		"copied":        {mirror.Dual, there.URL + ".not", store.TopicStats{}, Well, "no dead letters", Worth},
		"nothing moves": {mirror.Off, "", store.TopicStats{}, Well, "no dead letters", ""},
	} {
		s := memory.New(memory.Config{})
		plans, err := mirror.OpenPlans(s)
		if err == nil {
			err = plans.Put(t.Context(), &mirror.Plan{Topic: "t", Stage: c.stage, Target: "sqlite:new"}, "ann")
		}
		if err != nil {
			t.Fatal(err)
		}
		d := &Doctor{Mirror: c.mirror}
		d.plans(t.Context(), s)
		other := Verdict("")
		for _, f := range d.found {
			other = f.Verdict
		}
		if len(d.found) > 1 || other != c.other {
			t.Errorf("%s: of the mirror %+v", name, d.found)
		}
		c.stats.Name, d.found = "t", nil
		d.topic(t.Context(), memory.New(memory.Config{}), &c.stats, map[string]bool{})
		if len(d.found) != 1 || d.found[0].Verdict != c.verdict || !strings.Contains(d.found[0].Detail, c.says) ||
			strings.Contains(d.found[0].Fix, "resume") {
			t.Errorf("%s: %+v", name, d.found)
		}
	}
}

// fakeBroker is the URL of a broker within the process.
func fakeBroker(t *testing.T) string {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SleepOutOfOrder())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return "kafka://" + cluster.ListenAddrs()[0] + "?partitions=1&replicas=1&linger=0s"
}
