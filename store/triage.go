package store

import "time"

// Resolution says that a dead letter was dealt with by other means.
type Resolution struct {
	At   time.Time
	By   string
	Note string
}
