package cluster

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

// fakeURL is the URL of a broker within the process, to which options can be added.
func fakeURL(t *testing.T) string {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SleepOutOfOrder())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return "kafka://" + cluster.ListenAddrs()[0] + "?partitions=1&replicas=1&linger=0s"
}

// openFake opens a store with such a broker.
func openFake(t *testing.T, options string) store.Store {
	t.Helper()
	s, err := open.Open(t.Context(), open.Config{URL: fakeURL(t) + "&" + options})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestCodecOverKafka: operators see what was sent, not what is stored, and the audit
// keeps that of an edit.
func TestCodecOverKafka(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "blobs")
	s := openFake(t, "codec=zstd&offload=1024&blobs="+folder)
	ctx := t.Context()
	noise := make([]byte, 4000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise)
	large := fmt.Sprintf(`{"noise":%q}`, base64.StdEncoding.EncodeToString(noise)) // goes to a file
	small := `{"text":"` + strings.Repeat("again and ", 200) + `"}`
	for id, body := range map[string]string{"small": small, "large": large} {
		m := pawl.Message{ID: id, Topic: "t", Body: []byte(body)}
		if rs, err := s.Append(ctx, store.NewBatch(m)); err != nil || rs[0].Err != nil {
			t.Fatal(rs, err)
		}
		letters, _ := store.As[store.DeadLetters](s)
		m.ID += " dead"
		now := time.Now().Truncate(time.Millisecond)
		if refused, err := letters.Import(ctx, store.Record{Message: m, State: store.IsDead, EnqueuedAt: now,
			DeadAt: now, Kind: "K"}); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
	}
	bodies := map[string]string{}
	look, _ := store.As[store.Inspector](s)
	for r, err := range look.List(ctx, store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		bodies[r.ID] = string(r.Body)
	}
	if len(bodies) != 2 || bodies["small"] != small || bodies["large"] != large {
		t.Errorf("listed %.200q", bodies)
	}
	k, err := Of(s, "peek")
	if err != nil {
		t.Fatal(err)
	}
	seen, err := k.Peek(ctx, "t", 0, -1, 10)
	if err != nil || len(seen) != 2 {
		t.Fatal(seen, err)
	}
	for _, m := range seen {
		if m.Body == nil || *m.Body != bodies[m.ID] {
			t.Errorf("peek: %+v", m)
		}
	}
	ops, err := operate.OpenOperations(s)
	if err != nil {
		t.Fatal(err)
	}
	for id, body := range map[string]string{"small dead": small, "large dead": large} {
		if changed, err := operate.EditLetter(ctx, ops, id, "who", "by hand", "", func(got []byte) ([]byte, error) {
			if string(got) != body {
				t.Errorf("edit of %s gets %.60q", id, got)
			}
			return []byte(`{"text":"` + strings.Repeat("edited ", 200) + `"}`), nil
		}); err != nil || !changed {
			t.Fatal(changed, err)
		}
		if r, err := look.Get(ctx, id); err != nil || !strings.HasPrefix(string(r.Body), `{"text":"edited `) {
			t.Errorf("after the edit: %.60q, %v", r.Body, err)
		}
	}
	log, err := operate.ListAudit(ctx, s, operate.AuditFilter{Action: "edit"})
	if err != nil || len(log) != 2 {
		t.Fatal(log, err)
	}
	for _, a := range log {
		if a.OriginalBody == nil || *a.OriginalBody != bodies[strings.TrimSuffix(a.Target, " dead")] {
			t.Errorf("the audit has another original of %s: %+v", a.Target, a)
		}
	}
}
