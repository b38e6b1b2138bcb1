package sqlite

import (
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Processes that open a new file at the same moment all get it: who comes second waits
// for who makes it a write-ahead log.
func TestOpenANewFileAtOnce(t *testing.T) {
	for range 40 {
		file := dsn(filepath.Join(t.TempDir(), "pawl.db"), "mode=rwc&_busy_timeout=10000")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				c, err := connect(t.Context(), file)
				if err != nil {
					t.Error(err)
					return
				}
				w := &writer{core: &core{cfg: Config{Wait: 10 * time.Second}}, conn: c}
				if mode, err := w.writeAhead(t.Context()); err != nil || mode != "wal" {
					t.Errorf("mode %q, %v", mode, err)
				}
				if err := c.close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}
