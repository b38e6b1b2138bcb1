package store

import "errors"

// NotEmpty is the error of a RemoveTopic of a topic with messages.
func NotEmpty(name string) error {
	return &Error{Op: "remove topic " + name, Code: ErrConflict, Err: errors.New("it has messages, or dead letters")}
}
