package operate

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Filter is what an operation was about, as JSON: a filter of dead letters, or
// ids.
type Filter struct {
	Topic       string     `json:"topic,omitempty"`
	Key         string     `json:"key,omitempty"`
	KeyBase64   string     `json:"key_base64,omitempty"`
	Kind        string     `json:"kind,omitempty"`
	Reason      string     `json:"reason,omitempty"`
	Fingerprint string     `json:"fingerprint,omitempty"`
	Search      string     `json:"search,omitempty"`
	Since       *time.Time `json:"since,omitempty"`
	Until       *time.Time `json:"until,omitempty"`
	Limit       int        `json:"limit,omitempty"`

	Attrs    map[string]string `json:"attrs,omitempty"`
	Resolved bool              `json:"resolved,omitempty"` // instead of open ones
	// Of messages that are not dead.
	State            string  `json:"state,omitempty"`
	OlderThanSeconds float64 `json:"older_than_seconds,omitempty"`
	Owner            string  `json:"owner,omitempty"`
	Stuck            bool    `json:"stuck,omitempty"`

	IDs []string `json:"ids,omitempty"`
}

// formFilter gives a selection its JSON form.
func formFilter(sel Selection) Filter {
	f := &sel.Filter
	form := Filter{
		Topic: f.Topic, Kind: string(f.Kind), Reason: f.Reason, Fingerprint: f.Fingerprint, Search: f.Text,
		Since: moment(f.Since), Until: moment(f.Until), Limit: f.Limit, IDs: sel.IDs, Attrs: f.Attrs,
		Resolved: f.Resolved != nil && *f.Resolved,
	}
	if utf8.Valid(f.Key) {
		form.Key = string(f.Key)
	} else {
		form.KeyBase64 = base64.StdEncoding.EncodeToString(f.Key)
	}
	return form
}

// filter is the filter that a form stands for.
func (f *Filter) filter() (store.DeadFilter, error) {
	d := store.DeadFilter{
		Topic: f.Topic, Kind: pawl.Kind(f.Kind), Reason: f.Reason, Fingerprint: f.Fingerprint, Text: f.Search,
		Limit: f.Limit, Attrs: f.Attrs, Resolved: &f.Resolved,
	}
	if f.Since != nil {
		d.Since = *f.Since
	}
	if f.Until != nil {
		d.Until = *f.Until
	}
	var err error
	switch {
	case f.Key != "":
		d.Key = []byte(f.Key)
	case f.KeyBase64 != "":
		d.Key, err = base64.StdEncoding.DecodeString(f.KeyBase64)
	}
	return d, err
}
