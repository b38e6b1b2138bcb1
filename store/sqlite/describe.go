package sqlite

import (
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// Describe implements [store.Describer]. It names the durability of this store's
// setting.
func (s *core) Describe() store.Description { return s.description }

var durability = map[Synchronous]string{
	Full:   "survives the loss of power, as far as the disk keeps what it has synchronised",
	Extra:  "survives the loss of power, as far as the disk keeps what it has synchronised",
	Normal: "survives the death of the process; the loss of power may take the last moments",
}

// Description is what this backend keeps.
func Description() store.Description {
	return store.Description{
		Name: "sqlite", URL: "sqlite:PATH",
		Durability: "FULL (default), EXTRA: " + durability[Full] + "; NORMAL: " + durability[Normal],
		Capabilities: sqlstore.Capabilities(map[store.Capability]string{
			store.CanProcesses: "of one machine, on a local disk",
			store.CanTxAppend:  "while the caller's transaction is open, every other call waits",
			store.CanWake:      "at once within a process, after some milliseconds across processes",
		}),
	}
}

var _ sqlstore.Store = (*Store)(nil)
