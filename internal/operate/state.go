package operate

import (
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/statesync"
)

// StateValue is a value that processes share, as JSON.
type StateValue struct {
	Topic   string          `json:"topic"`
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value"`
	Version int64           `json:"version"`
	Writer  string          `json:"writer"`
	Time    time.Time       `json:"time"`
	Schema  string          `json:"schema"`
	Deleted bool            `json:"deleted,omitempty"`
	Skipped int64           `json:"skipped,omitempty"`
}

// FormState is the form of a value.
func FormState(v *statesync.Value[json.RawMessage]) StateValue {
	return StateValue{v.Topic, v.Key, v.Value, v.Version, v.Writer, v.Time.UTC(), v.Schema, v.Deleted, v.Skipped}
}

// FormStates are the forms of values.
func FormStates(all []statesync.Value[json.RawMessage]) []StateValue {
	forms := make([]StateValue, len(all))
	for i := range all {
		forms[i] = FormState(&all[i])
	}
	return forms
}
