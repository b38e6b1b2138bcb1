package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
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
		"all":              {store.TopicStats{Waiting: 3, Dead: 2, Paused: pause}, []string{"paused by ann", "no worker carries them out", "2 dead letters"}},
		"no worker, dead":  {store.TopicStats{Waiting: 3, Dead: 2}, []string{"no worker carries them out", "2 dead letters"}},
		"paused, dead":     {store.TopicStats{Dead: 2, Paused: pause}, []string{"paused by ann", "2 dead letters"}},
		"slow, dead":       {store.TopicStats{Waiting: 1, Leased: 1, Dead: 2, OldestWaiting: 2 * time.Hour}, []string{"waiting for 2h0m0s", "2 dead letters"}},
		"well":             {store.TopicStats{Leased: 1}, []string{"no dead letters"}},
		"paused, for long": {store.TopicStats{Waiting: 1, Leased: 1, OldestWaiting: 2 * time.Hour, Paused: pause}, []string{"paused by ann"}},
	} {
		d := &Doctor{}
		c.topic.Name = "t"
		d.topic(&c.topic, map[string]bool{})
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
		d := &Doctor{Open: OpenConfig{URL: "sqlite:" + path}}
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
