package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
)

// Fault is one thing that is wrong with a document: the path of a field, as in
// "[1].priority", and why.
type Fault struct {
	Field string `json:"field"`
	Why   string `json:"why"`
}

// mostFaults is after how many faults of a message the rest of it is passed over.
const mostFaults = 1000

// ReadMessage reads a message as the HTTP API takes it, and returns everything that is
// wrong with it, but for a topic that is missing. A line of a stream may also have what
// [ParseMessage] takes. The error is an [*Error]: data is no JSON object.
func ReadMessage(data []byte, line bool) (Draft, []Fault, error) {
	return read(data, manner{strict: !line})
}

// ReadEmit is [ReadMessage] for what goes with an ack: a negative duration is one that is over.
func ReadEmit(data []byte) (Draft, []Fault, error) {
	return read(data, manner{strict: true, emitted: true})
}

func read(data []byte, how manner) (Draft, []Fault, error) {
	s := scan(data)
	if s.invalid != nil {
		return Draft{}, nil, s.invalid
	}
	s.manner = how
	var d Draft
	s.draft(&d)
	if s.end() == nil && fit(&d) == nil {
		return d, nil, nil
	}
	return diagnose(data, how)
}

// fit reports what is invalid in a message, whatever its topic.
func fit(d *Draft) error {
	m := d.Message
	m.Topic = cmp.Or(m.Topic, "any")
	return m.Validate()
}

// diagnose reads each field of a message by itself. The draft has the topic alone.
func diagnose(data []byte, how manner) (Draft, []Fault, error) {
	s := scan(data)
	var d Draft
	var faults []Fault
	var seen fieldSet
	s.fields(func(name []byte, _ int) {
		field, value := string(name), s.skip()
		if len(faults) >= mostFaults {
			return
		}
		if other := seen.add(field); other != "" && string(value) != "null" {
			faults = append(faults, Fault{field, "is given beside " + other})
			return
		}
		if wrong := within(field, value, how); len(wrong) > 0 {
			faults = append(faults, wrong...)
		} else if field == "topic" {
			_ = json.Unmarshal(value, &d.Topic) // it is a text
		}
	})
	if err := s.end(); err != nil {
		return Draft{}, nil, err
	}
	if len(faults) == 0 { // it is wrong as a whole only
		faults = append(faults, Fault{"", "is not valid"})
	}
	return d, faults, nil
}

// within are the faults of a field of a message, those of unique by its own fields.
func within(field string, value []byte, how manner) (faults []Fault) {
	whole := alone(field, value, how)
	if whole == "" {
		return nil
	}
	s := scan(value)
	if field == "unique" && s.peek() == '{' {
		s.fields(func(name []byte, _ int) {
			quoted, _ := json.Marshal(string(name))
			part := fmt.Appendf(nil, "{%s:%s}", quoted, s.skip())
			if len(faults) >= mostFaults {
				return
			}
			if string(name) != "key" {
				part = fmt.Appendf(nil, `{"key":"any",%s`, part[1:])
			}
			if why := alone(field, part, how); why != "" {
				faults = append(faults, Fault{field + "." + string(name), why})
			}
		})
	}
	if len(faults) == 0 {
		faults = []Fault{{field, whole}}
	}
	return faults
}

// alone says what is wrong with a field of a message.
func alone(field string, value []byte, how manner) string {
	name, _ := json.Marshal(field)
	one := fmt.Appendf(nil, "{%s:%s}", name, value)
	if field == "unique_for_seconds" {
		one = fmt.Appendf(nil, `{"unique_key":"any",%s:%s}`, name, value)
	}
	s := scan(one)
	s.manner = how
	var d Draft
	s.draft(&d)
	if s.err != nil {
		return s.err.Why
	}
	err := fit(&d)
	if bad, ok := errors.AsType[*pawl.InvalidError](err); ok {
		return bad.Why
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// Elements returns the values of an array as they are written, the first most ones. The error is an [*Error].
func Elements(data []byte, most int) ([][]byte, error) {
	s := scan(data)
	var all [][]byte
	s.items(func() {
		if value := s.skip(); len(all) < most {
			all = append(all, value)
		}
	})
	return all, s.end()
}

// EachMember calls do with the name and the value of each member of an object. What is none has none.
func EachMember(data []byte, do func(name string, value []byte)) {
	s := scan(data)
	s.fields(func(name []byte, _ int) { do(string(name), s.skip()) })
}

// Valid reports whether data is one JSON value.
func Valid(data []byte) bool { return invalid(data) == nil }
