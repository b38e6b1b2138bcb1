package store

import (
	"context"
	"errors"
)

// TopicRemover is the optional interface for removing topics that are no longer used.
type TopicRemover interface {
	// RemoveTopic forgets a topic: its settings, pause and figures, and the acked messages
	// that it retains. While a message of it is here, a dead letter included, it fails
	// with [ErrConflict] and changes nothing; [ErrNotFound] if there is no such topic. An
	// append creates the topic again, with default settings, also in a process that had
	// used it before.
	RemoveTopic(ctx context.Context, name string) error
}

// NotEmpty is the error of a RemoveTopic of a topic with messages.
func NotEmpty(name string) error {
	return &Error{Op: "remove topic " + name, Code: ErrConflict, Err: errors.New("it has messages, or dead letters")}
}
