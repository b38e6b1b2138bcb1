package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/policy"
)

// ParseOverride reads an override of the policy that stands alone, as JSON with the keys of one in a file.
func ParseOverride(text []byte, kinds []*pipeline.Kind) (policy.Override, error) {
	var one bytes.Buffer
	if err := json.Compact(&one, text); err != nil {
		return policy.Override{}, err
	}
	c, err := Load(Source{Text: slices.Concat([]byte("policy: {overrides: ["), one.Bytes(), []byte("]}")), Kinds: kinds,
		ReadFile: func(string) ([]byte, error) { return nil, errors.New("only a configuration file names others") },
	}, "policy")
	if problems, ok := errors.AsType[Problems](err); ok {
		var all []string
		for _, p := range problems.Faults() {
			path := strings.TrimPrefix(strings.TrimPrefix(p.Path, "policy.overrides[0]"), ".")
			all = append(all, (&Problem{File: "override", Path: path, Message: p.Message, Hint: p.Hint}).String())
		}
		return policy.Override{}, errors.New(strings.Join(all, "; "))
	}
	if err == nil && len(c.Overrides) != 1 {
		err = fmt.Errorf("%s is no override", one.String())
	}
	if err != nil {
		return policy.Override{}, err
	}
	return c.Overrides[0], nil
}
