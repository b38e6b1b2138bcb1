package console

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"sync"
)

//go:embed words/*.txt sentences/*.txt
var wordFiles embed.FS

// chinese is the catalogue of what pages say.
var chinese = sync.OnceValue(func() map[string]string { return catalogue("words/*.txt") })

// catalogue reads files that have a line for each text, "English = 中文".
func catalogue(files string) map[string]string {
	all := map[string]string{}
	names, err := fs.Glob(wordFiles, files)
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
}

// sentences are the Chinese for what other parts of Pawl say in English: each %s stands for what a sentence is about.
var sentences = sync.OnceValue(func() map[*regexp.Regexp]string {
	all := map[*regexp.Regexp]string{}
	for english, words := range catalogue("sentences/*.txt") {
		all[regexp.MustCompile(`(?s)^`+strings.ReplaceAll(regexp.QuoteMeta(english), "%s", "(.*)")+`$`)] = words
	}
	return all
})

// Sentence is an English sentence of another part of Pawl in the language of the person, as far as the catalogue has
// it: the most literal one that fits.
func (v *view) Sentence(text string) string {
	if v.Lang != zh {
		return text
	}
	said, literal := text, -1
	for sentence, words := range sentences() {
		found := sentence.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		about := make([]any, len(found)-1)
		same := len(text)
		for i := range about {
			about[i] = found[i+1]
			same -= len(found[i+1])
		}
		if same > literal {
			said, literal = fmt.Sprintf(words, about...), same
		}
	}
	return said
}

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
