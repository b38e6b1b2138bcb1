package operate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lines"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

// TestImportOfWhatIsEncoded: letters come back with the bodies that they were sent with,
// exported with the codec or without.
func TestImportOfWhatIsEncoded(t *testing.T) {
	folder := t.TempDir()
	at := func(name, options string) store.Store {
		t.Helper()
		s, err := open.Open(t.Context(), open.Config{URL: "sqlite:" + filepath.Join(folder, name) + options})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	now := time.Now().Truncate(time.Millisecond)
	letter := func(id, body string, headers map[string]string) store.Record {
		return store.Record{Message: pawl.Message{ID: id, Topic: "t", Body: []byte(body), Headers: headers},
			State: store.IsDead, EnqueuedAt: now, DeadAt: now}
	}
	long := strings.Repeat("a body that becomes shorter ", 100)
	letters := []store.Record{letter("compressed", long, nil), letter("plain", "short", map[string]string{"a": "b"})}
	exported := func(s store.Store) *bytes.Buffer {
		t.Helper()
		var b bytes.Buffer
		d, _ := store.As[store.DeadLetters](s)
		for r, err := range d.Dead(t.Context(), store.DeadFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			line, err := json.Marshal(FormLetter(&r))
			if err != nil {
				t.Fatal(err)
			}
			b.Write(append(line, '\n'))
		}
		return &b
	}
	imported := func(s store.Store, from *bytes.Buffer) store.Store {
		t.Helper()
		d, _ := store.As[store.DeadLetters](s)
		m := Importer{Letters: d, Into: s, Bad: func(e *lines.Error) { t.Error(e) },
			Refused: func(id string, why error) {
				t.Error(id, why)
			}}
		if done, err := m.Run(t.Context(), from); err != nil || done.Imported != int64(len(letters)) {
			t.Fatal(done, err)
		}
		return s
	}
	first := at("a.db", "?codec=zstd")
	d, _ := store.As[store.DeadLetters](first)
	if refused, err := d.Import(t.Context(), letters...); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	for name, s := range map[string]store.Store{
		"exported without": imported(at("b.db", "?codec=zstd"), exported(at("a.db", ""))),
		"exported with":    imported(at("c.db", "?codec=zstd"), exported(first)),
	} {
		d, _ := store.As[store.DeadLetters](s)
		got := map[string]string{}
		for r, err := range d.Dead(t.Context(), store.DeadFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			got[r.ID] = fmt.Sprint(r.Headers) + string(r.Body)
		}
		for _, want := range letters {
			if text := fmt.Sprint(want.Headers) + string(want.Body); got[want.ID] != text {
				t.Errorf("%s: %s is %.200q; want %.200q", name, want.ID, got[want.ID], text)
			}
		}
	}
}
