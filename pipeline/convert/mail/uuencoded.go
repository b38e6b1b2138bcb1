package mail

import (
	"strings"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
)

// uuencoded takes the files out of a text that are written into it as uuencode does.
func uuencoded(text string) (rest string, files []doc.Document) {
	if !strings.Contains(text, "begin ") {
		return text, nil
	}
	var b strings.Builder
	for text != "" {
		line, after, _ := strings.Cut(text, "\n")
		words := strings.Fields(line)
		if len(words) > 2 && words[0] == "begin" && len(words[1]) <= 4 && strings.Trim(words[1], "01234567") == "" {
			if data, end, ok := uudecoded(after); ok {
				name := strings.TrimSpace(line[strings.Index(line, words[1])+len(words[1]):])
				files = append(files, doc.Document{Name: name, Data: data})
				text = end
				continue
			}
		}
		b.WriteString(text[:len(text)-len(after)])
		text = after
	}
	return b.String(), files
}

// uudecoded reads lines up to "end": the number of bytes, then four characters for each three.
func uudecoded(text string) (data []byte, rest string, ok bool) {
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		if line = strings.TrimRight(line, "\r"); strings.TrimSpace(line) == "end" {
			return data, text, true
		}
		if line == "" {
			continue
		}
		n := int(line[0]-' ') & 63
		if line[0] < ' ' || line[0] > '`' || n > 45 || len(line) > 62 {
			return nil, "", false
		}
		line += strings.Repeat(" ", 64)
		for i := 1; n > 0; i += 4 {
			var word uint32
			for _, c := range []byte(line[i : i+4]) {
				word = word<<6 | uint32(c-' ')&63
			}
			data = append(data, []byte{byte(word >> 16), byte(word >> 8), byte(word)}[:min(n, 3)]...)
			n -= 3
		}
	}
	return nil, "", false
}
