package config

import "strings"

// Meant returns the one of names that was probably meant by word, in whatever
// case it is written, or "".
func Meant(word string, names []string) string {
	lower := make([]string, len(names))
	for i, name := range names {
		lower[i] = strings.ToLower(name)
	}
	best := near(word, lower)
	for i, name := range lower {
		if best != "" && name == best {
			return names[i]
		}
	}
	return ""
}
