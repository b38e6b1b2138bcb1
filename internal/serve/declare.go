package serve

import (
	"context"
	"log/slog"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// declaring is a store in which a declaration that changes settings is logged and
// written into the audit.
type declaring struct {
	store.Store
	store.Topics
	who    string
	logger *slog.Logger
}

// newDeclaring returns s with its declarations on record, by who.
func newDeclaring(s store.Store, who string, logger *slog.Logger) store.Store {
	if topics, ok := store.As[store.Topics](s); ok {
		return &declaring{s, topics, who, logger}
	}
	return s
}

// Unwrap returns the store behind it.
func (s *declaring) Unwrap() store.Store { return s.Store }

// Declare implements [store.Topics].
func (s *declaring) Declare(ctx context.Context, d store.Declaration) (store.Topic, error) {
	was, err := s.Topics.Topic(ctx, d.Name)
	known := err == nil && was.Version > 0
	now, err := s.Topics.Declare(ctx, d)
	if err != nil || !known || now.Version == was.Version {
		return now, err
	}
	changes := was.Changes(now)
	s.logger.Warn("the settings of a topic were declared otherwise before; the newest declaration counts",
		"topic", d.Name, "changes", changes)
	entry := operate.AuditEntry{Action: "topics declare", Who: s.who, Target: d.Name, Change: changes, Count: 1,
		Result: operate.AuditResult{Done: 1}}
	if err := operate.Audit(ctx, s.Store, entry); err != nil {
		s.logger.Warn("the change of a topic's settings is not in the audit", "topic", d.Name, "error", err)
	}
	return now, nil
}
