package console

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"
)

//go:embed words/*.txt
var wordFiles embed.FS

// chinese is the catalogue: a file has a line for each text, "English = 中文".
var chinese = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	names, err := fs.Glob(wordFiles, "words/*.txt")
	if err != nil {
		panic(err) // the pattern is right
	}
	for _, name := range names {
		text, err := fs.ReadFile(wordFiles, name)
		if err != nil {
			panic(err) // it is in the binary
		}
		for line := range strings.Lines(string(text)) {
			if english, words, ok := strings.Cut(strings.TrimSpace(line), " = "); ok {
				all[english] = words
			}
		}
	}
	return all
})

// languages that the console speaks.
const (
	english = "en"
	zh      = "zh"
)

// language is the first one of a preference, or of Accept-Language, that the console speaks.
func language(preferred, accepted string) string {
	if preferred == english || preferred == zh {
		return preferred
	}
	for part := range strings.SplitSeq(accepted, ",") {
		tag, _, _ := strings.Cut(strings.TrimSpace(part), ";")
		switch primary, _, _ := strings.Cut(strings.ToLower(tag), "-"); primary {
		case english, zh:
			return primary
		}
	}
	return english
}

// translate gives an English text in a language, filled in as by fmt.Sprintf.
func translate(lang, text string, args ...any) string {
	if lang == zh {
		if words, ok := chinese()[text]; ok {
			text = words
		}
	}
	if len(args) == 0 {
		return text
	}
	return fmt.Sprintf(text, args...)
}
