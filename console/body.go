package console

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/operate"
)

// Bounds of a body that is shown; it can be downloaded whole.
const (
	maxShown = 64 << 10
	maxNodes = 2000
	maxDepth = 40
)

// bodyView is a body as a page shows it. Browsers get it as text, and never parse it.
type bodyView struct {
	As, Text    string // text, tree or hex
	Tree        *node
	Size, Shown int
	Cut         bool
}

// node is a value of a JSON body.
type node struct {
	Name, Value, Kind string
	Under             []*node
}

func bytesOf(m *operate.Message) []byte {
	if m.BodyBase64 != nil {
		b, err := base64.StdEncoding.DecodeString(*m.BodyBase64)
		if err != nil {
			return nil // the API writes it
		}
		return b
	}
	return []byte(text(m.Body))
}

// bodyOf shows a body in a way, or in that which suits it.
func bodyOf(m *operate.Message, as string) *bodyView {
	b := bytesOf(m)
	v := &bodyView{As: as, Size: len(b), Tree: treeOf(b)}
	switch {
	case v.As == "" && v.Tree != nil && len(v.Tree.Under) > 0:
		v.As = "tree"
	case v.As == "" && !utf8.Valid(b):
		v.As = "hex"
	case v.As == "" || v.As == "tree" && v.Tree == nil:
		v.As = "text"
	}
	b = b[:min(len(b), maxShown)]
	v.Shown, v.Cut = len(b), len(b) < v.Size
	if v.As == "hex" {
		b = b[:min(len(b), maxShown/4)]
		for _, at := range secretMember.FindAllSubmatchIndex(b, -1) { // the others stay where they are
			copy(b[at[3]:at[1]], bytes.Repeat([]byte("*"), at[1]-at[3]))
		}
		v.Text, v.Shown, v.Cut = hex.Dump(b), len(b), len(b) < v.Size
	} else {
		v.Text = secretMember.ReplaceAllString(strings.ToValidUTF8(string(b), "\uFFFD"), `$1"`+mask+`"`)
	}
	return v
}

// mask stands for a secret.
const mask = "••••••"

var (
	secretName   = regexp.MustCompile(`(?i)passw|secret|token|authorization|cookie|api[-_]?key|credential|private[-_]?key`)
	secretMember = regexp.MustCompile(
		`(?i)("[^"]*(?:passw|secret|token|authorization|cookie|api[-_]?key|credential|private[-_]?key)[^"]*"\s*:\s*)"(?:[^"\\]|\\.)*(?:"|\\?$)`)
)

// pair is a name with its value.
type pair struct{ Name, Value string }

// masked are headers by name, those that are secrets without their value.
func masked(headers map[string]string) []pair {
	var all []pair
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		if secretName.MatchString(name) {
			value = mask
		}
		all = append(all, pair{name, value})
	}
	return all
}

// treeOf is a JSON body as a tree, with its numbers as they are written and its members in their order; nil if it is
// none, or too large.
func treeOf(b []byte) *node {
	if len(b) > 4*maxShown || !json.Valid(b) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	left := maxNodes
	root := readNode(d, "", &left, 0)
	if left < 0 {
		return nil
	}
	return root
}

func readNode(d *json.Decoder, name string, left *int, depth int) *node {
	token, err := d.Token()
	if *left--; err != nil || *left < 0 || depth > maxDepth {
		*left = -1
		return nil
	}
	n := &node{Name: name, Kind: "text"}
	switch t := token.(type) {
	case json.Delim:
		n.Kind = string(t)
		for *left >= 0 && d.More() {
			member := ""
			if t == '{' {
				key, err := d.Token()
				if err != nil {
					*left = -1
					return nil
				}
				member, _ = key.(string)
			}
			n.Under = append(n.Under, readNode(d, member, left, depth+1))
		}
		if *left >= 0 {
			_, _ = d.Token() // its end: the document is valid
		}
		return n
	case string:
		n.Value = t
	case json.Number:
		n.Value, n.Kind = t.String(), "number"
	case bool:
		n.Value, n.Kind = "false", "word"
		if t {
			n.Value = "true"
		}
	default:
		n.Value, n.Kind = "null", "word"
	}
	if secretName.MatchString(name) && n.Kind == "text" {
		n.Value = mask
	}
	return n
}
