//go:build linux

package journal_test

import (
	"os"
	"path/filepath"
	"testing"

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

func TestReadTornLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "1-1.journal")
	if err := os.WriteFile(file, []byte(`{"What":"start","At":5}`+"\n"+`{"What":"end","At":6`), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := journal.Read(file)
	if err != nil || len(got) != 1 || got[0].At != 5 {
		t.Fatal(got, err)
	}
	if err := os.WriteFile(file, []byte("{\"What\":\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Read(file); err == nil {
		t.Fatal("a short line was read")
	}
}
