package pipeline

import (
	"errors"
	"net"
	"net/url"
	"regexp"
	"strings"

	"github.com/pawl-dev/pawl"
)

// Type is the type of a value of the configuration, or of a flag.
type Type uint8

// The types, and what a [Section] or [Values] has for each.
const (
	Text     Type = iota // string
	Int                  // int64
	Number               // float64
	Bool                 // bool
	Duration             // time.Duration: 500ms, 2h
	Rate                 // float64, in events a second: 30/s, 20/m
	Size                 // int64, in bytes: 5MiB, 64KiB
	Choice               // string, one of Choices
	Moment               // time.Time, of a flag only: 2026-11-22T10:00:00Z, or a duration ago such as 2d
	URL                  // string; a secret part of it is never shown
	StoreURL             // string: the URL of a store
	Texts                // []string: a list; as a flag it may be repeated
	Object               // [Section]: keys that Fields name
	Table                // map[string]Section, or map[string]string if Of is a scalar: keys that the user names
	List                 // []Section
)

// Field is a key of the configuration.
type Field struct {
	Name string
	Doc  string // one sentence, for docs/configuration.md
	Type Type
	// Default as one would write it; empty: the key is absent unless it is stated. DefaultDoc describes what
	// then applies.
	Default    string
	DefaultDoc string
	Choices    []string // of a Choice
	// Min and Max bound an Int, a Size (bytes) or a Duration (nanoseconds). Both 0: any that is not negative.
	Min, Max int64
	Required bool
	Secret   bool // never shown, and masked in logs
	Live     bool // a reload applies it ([Pipeline.Reload])
	Raw      bool // ${…} in it is not replaced: a shell reads it
	Fields   []Field
	// Short names the key of an Object that a value in its place is the value of: `limits: off` is `limits:
	// {mode: off}`.
	Short string
	Of    *Field
	// Check reports what is wrong with a text beyond its type: "is …", "must be …".
	Check func(string) error
}

// Section is an object of the configuration after it was checked. Defaults are filled in. Reading a key that no
// Field describes panics, because it is a bug.
type Section struct {
	known  map[string]Type
	values map[string]any
}

// NewSection makes a section of values that have the types listed at [Type]. The host calls it, and tests do.
func NewSection(fields []Field, values map[string]any) Section {
	s := Section{known: make(map[string]Type, len(fields)), values: values}
	for i := range fields {
		s.known[fields[i].Name] = fields[i].Type
	}
	return s
}

// Has reports whether a key is stated or has a default.
func (s Section) Has(name string) bool { return s.at(name) != nil }

func (s Section) at(name string) any {
	if _, ok := s.known[name]; !ok {
		panic("pipeline: no field describes the key " + name)
	}
	return s.values[name]
}

func value[T any](s Section, name string) T {
	v, _ := s.at(name).(T)
	return v
}

// OwnTopics begins the names of topics in which a store keeps what is its own: the state, over Kafka.
const OwnTopics = "pawl."

// CheckTopic is a [Field.Check] of the name of a topic for messages.
func CheckTopic(s string) error {
	if strings.HasPrefix(s, OwnTopics) {
		return pawl.Invalid("topic", "%q is a name of Pawl's own topics, which begin with %s", s, OwnTopics)
	}
	return pawl.ValidTopic(s)
}

// CheckAddress is a [Field.Check] of an address to listen at.
func CheckAddress(s string) error {
	if _, port, err := net.SplitHostPort(s); err != nil || !isPort(port) {
		return errors.New("must be an address with a port, such as 127.0.0.1:9120")
	}
	return nil
}

// CheckHTTP is a [Field.Check] of the address of a server that speaks HTTP.
func CheckHTTP(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !isPort(u.Port()) {
		return errors.New("must be an address such as https://example.com:9200")
	}
	return nil
}

// CheckBase is a [Field.Check] of such an address that paths are appended to.
func CheckBase(s string) error {
	if err := CheckHTTP(s); err != nil {
		return err
	}
	if strings.ContainsAny(s, "?#") {
		return errors.New("must have neither ? nor #: paths are appended to it")
	}
	return nil
}

// isPort reports whether a port can be used: none, a number up to 65535, or the name of a service.
func isPort(s string) bool {
	_, err := net.LookupPort("tcp", s)
	return err == nil
}

// CheckPath is a [Field.Check] of the path of a URL that is served.
func CheckPath(s string) error {
	if !strings.HasPrefix(s, "/") || strings.ContainsAny(s, " {}?#") {
		return errors.New("must begin with / and have neither spaces nor ? # { }")
	}
	return nil
}

// CheckForm makes a [Field.Check] of a regular expression that has to match all of a text, and what is wrong otherwise.
func CheckForm(pattern, otherwise string) func(string) error {
	form := regexp.MustCompile("^(?:" + pattern + ")$")
	return func(s string) error {
		if !form.MatchString(s) {
			return errors.New(otherwise)
		}
		return nil
	}
}
