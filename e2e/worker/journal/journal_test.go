//go:build linux

package journal_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/e2e/worker/journal"
)

func TestReadWhatWasWritten(t *testing.T) {
	folder := t.TempDir()
	w, err := journal.Create(folder)
	if err != nil {
		t.Fatal(err)
	}
	before := journal.Now()
	want := []journal.Line{
		{What: journal.Start, ID: "a", Token: "1.2.3", Attempt: 4, Key: "k", Body: `{"n":1}`},
		{What: journal.End, ID: "a", Token: "1.2.3", Attempt: 4, Verdict: "ack"},
	}
	for _, l := range want {
		if err := w.Write(l); err != nil {
			t.Fatal(err)
		}
	}
	got, err := journal.ReadAll(folder)
	if err != nil || len(got) != len(want) {
		t.Fatal(got, err)
	}
	for i := range got {
		if got[i].At < before || got[i].At > journal.Now() {
			t.Errorf("line %d at %v", i, got[i].At)
		}
		got[i].At = 0
		if got[i] != want[i] {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
}

func TestTornLineIsReadWhenItIsWhole(t *testing.T) {
	folder := t.TempDir()
	f, err := os.Create(filepath.Join(folder, "1-1.journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tail := journal.Follow(folder)
	for _, c := range []struct {
		written string
		want    []time.Duration
	}{
		{`{"What":"start","At":5}` + "\n" + `{"What":"end","At":6`, []time.Duration{5}},
		{"", nil},
		{"1}\n" + `{"At":7}` + "\n", []time.Duration{61, 7}},
	} {
		if _, err := f.WriteString(c.written); err != nil {
			t.Fatal(err)
		}
		lines, err := tail.Next()
		if err != nil {
			t.Fatal(err)
		}
		var got []time.Duration
		for _, l := range lines {
			got = append(got, l.At)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("after %q: %v, want %v", c.written, got, c.want)
		}
	}
	if _, err := f.WriteString("{\"What\":\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := tail.Next(); err == nil {
		t.Fatal("a short line was read")
	}
}
