package console

import (
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/operate"
)

func statePages() []page {
	return []page{
		{path: "/state", file: "state", nav: "State", key: "v", show: statePage},
		{path: "/state/{topic}/{key}", file: "history", show: stateHistory},
	}
}

// syncPrefix begins the keys of values that processes share: TOPIC/KEY follows.
const syncPrefix = "sync/"

// entry is an entry of the state.
type entry struct {
	Key     string    `json:"key"`
	Value   string    `json:"value"`
	Version int64     `json:"version"`
	Writer  string    `json:"writer"`
	At      time.Time `json:"at"`
	History string    // the page of its versions, of a value that processes share
}

type stateData struct {
	Prefix  string
	Entries []entry
	Forms   []*action
	Cursor  string
}

func statePage(v *view) (any, error) {
	d := stateData{Prefix: syncPrefix}
	if v.r.URL.Query().Has("prefix") {
		d.Prefix = v.Query("prefix")
	}
	q := v.query("cursor")
	q.Set("prefix", d.Prefix)
	var err error
	if d.Cursor, err = v.get(&d.Entries, q, "/state"); err != nil {
		return nil, err
	}
	for i := range d.Entries {
		e := &d.Entries[i]
		if name, shared := strings.CutPrefix(e.Key, syncPrefix); shared {
			topic, key, _ := strings.Cut(name, "/")
			e.History = v.URL("/state/%s/%s", topic, key)
		}
	}
	put := putState(v, "{topic}", "{key}")
	put.Fields = append([]input{{Name: "p:topic", Label: v.T("Topic"), Kind: "text"},
		{Name: "p:key", Label: v.T("Key"), Kind: "text"}}, put.Fields...)
	d.Forms = []*action{put}
	return d, err
}

// putState is the form that writes a value.
func putState(v *view, topic, key string) *action {
	return v.Act(v.T("Write"), api.Operator, "/v1/state/%s/%s/put", topic, key).
		Area("j:value", v.T("Value"), "", `{"on":true}`).
		Field("s:schema", v.T("Name of its form"), "", "")
}

type historyData struct {
	Topic, Key string
	Versions   []operate.StateValue
	Forms      []*action
	Cursor     string
}

func stateHistory(v *view) (any, error) {
	d := historyData{Topic: v.r.PathValue("topic"), Key: v.r.PathValue("key")}
	var err error
	d.Cursor, err = v.get(&d.Versions, v.query("cursor"), "/state/%s/%s/history", d.Topic, d.Key)
	d.Forms = []*action{putState(v, d.Topic, d.Key)}
	if v.Query("cursor") == "" && len(d.Versions) > 0 && !d.Versions[0].Deleted {
		version := strconv.FormatInt(d.Versions[0].Version, 10)
		d.Forms[0].Hidden("n:if_version", version)
		d.Forms = append(d.Forms, v.Act(v.T("Remove"), api.Admin, "/v1/state/%s/%s/rm", d.Topic, d.Key).
			Hidden("n:if_version", version).Dangerous(d.Key))
	}
	return d, err
}
