package extract

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// step is a part of a JSON path: a name, an index, or all of them.
type step struct {
	name  string
	index int
	kind  stepKind
}

type stepKind uint8

const (
	stepName stepKind = iota
	stepIndex
	stepEach
)

var errPath = errors.New("a path is $ and then .name, ['name'], [0], [-1], .* or [*]")

// parsePath reads a JSON path (RFC 9535) without filters, slices and descendants.
func parsePath(text string) ([]step, error) {
	rest, ok := strings.CutPrefix(text, "$")
	if !ok {
		return nil, errPath
	}
	var steps []step
	for rest != "" {
		var s step
		var err error
		if s, rest, err = parseStep(rest); err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	return steps, nil
}

func parseStep(text string) (s step, rest string, err error) {
	if name, ok := strings.CutPrefix(text, "."); ok {
		end := strings.IndexAny(name, ".[")
		if end < 0 {
			end = len(name)
		}
		switch name[:end] {
		case "":
			return s, "", errPath
		case "*":
			return step{kind: stepEach}, name[end:], nil
		}
		return step{name: name[:end]}, name[end:], nil
	}
	inside, ok := strings.CutPrefix(text, "[")
	if !ok || inside == "" {
		return s, "", errPath
	}
	if quote := inside[0]; quote == '\'' || quote == '"' {
		name, rest, ok := strings.Cut(inside[1:], string(quote)+"]")
		if !ok {
			return s, "", errPath
		}
		return step{name: name}, rest, nil
	}
	inside, rest, ok = strings.Cut(inside, "]")
	if ok && inside == "*" {
		return step{kind: stepEach}, rest, nil
	}
	n, err := strconv.Atoi(inside)
	if !ok || err != nil {
		return s, "", errPath
	}
	return step{index: n, kind: stepIndex}, rest, nil
}

// walk appends what steps lead to. Members of an object come in the order of their names.
func walk(v any, steps []step, found []any) []any {
	if len(steps) == 0 {
		return append(found, v)
	}
	s, rest := steps[0], steps[1:]
	switch v := v.(type) {
	case map[string]any:
		if s.kind == stepEach {
			for _, name := range slices.Sorted(maps.Keys(v)) {
				found = walk(v[name], rest, found)
			}
		} else if member, ok := v[s.name]; ok && s.kind == stepName {
			found = walk(member, rest, found)
		}
	case []any:
		if s.kind == stepEach {
			for _, one := range v {
				found = walk(one, rest, found)
			}
			return found
		}
		i := s.index
		if i < 0 {
			i += len(v)
		}
		if s.kind == stepIndex && i >= 0 && i < len(v) {
			found = walk(v[i], rest, found)
		}
	}
	return found
}
