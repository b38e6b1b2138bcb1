package sqlite

import "github.com/pawl-dev/pawl/store"

// Describe implements [store.Describer]. It names the durability of this store's
// setting.
func (s *Store) Describe() store.Description {
	d := Description()
	d.Durability = string(s.sync) + ": " + durability[s.sync]
	return d
}

var durability = map[Synchronous]string{
	Full:   "survives the loss of power, as far as the disk keeps what it has synchronised",
	Extra:  "survives the loss of power, as far as the disk keeps what it has synchronised",
	Normal: "survives the death of the process; the loss of power may take the last moments",
}

// Description is what this backend keeps.
func Description() store.Description {
	kept := store.Support{Kept: true}
	return store.Description{
		Name: "sqlite", URL: "sqlite:PATH",
		Durability: "FULL (default), EXTRA: " + durability[Full] + "; NORMAL: " + durability[Normal],
		Capabilities: store.Capabilities{
			store.CanSurvive:     kept,
			store.CanProcesses:   {Kept: true, Note: "of one machine, on a local disk"},
			store.CanAnyProcess:  kept,
			store.CanExclusive:   kept,
			store.CanDeadline:    kept,
			store.CanPriority:    kept,
			store.CanDelay:       kept,
			store.CanUnique:      kept,
			store.CanEmitAtomic:  kept,
			store.CanAttempts:    kept,
			store.CanDeadLetters: kept,
			store.CanTriage:      kept,
			store.CanLookup:      kept,
			store.CanTopics:      kept,
			store.CanRemove:      kept,
			store.CanFigures:     kept,
			store.CanTxAppend:    {Kept: true, Note: "while the caller's transaction is open, every other call waits"},
			store.CanRepeatBatch: kept,
			store.CanWake: {Kept: true,
				Note: "at once within a process, after some milliseconds across processes"},
			store.CanState:   kept,
			store.CanMarks:   kept,
			store.CanPace:    kept,
			store.CanResults: kept,
			store.CanBound:   kept,
		},
	}
}

var (
	_ store.Store        = (*Store)(nil)
	_ store.Topics       = (*Store)(nil)
	_ store.Inspector    = (*Store)(nil)
	_ store.DeadLetters  = (*Store)(nil)
	_ store.Triage       = (*Store)(nil)
	_ store.TopicRemover = (*Store)(nil)
	_ store.Bounded      = (*Store)(nil)
	_ store.Waker        = (*Store)(nil)
	_ store.Entries      = (*Store)(nil)
	_ store.Marks        = (*Store)(nil)
	_ store.Pacer        = (*Store)(nil)
	_ store.Results      = (*Store)(nil)
	_ store.Migrator     = (*Store)(nil)
	_ store.Describer    = (*Store)(nil)
)
