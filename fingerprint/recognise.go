package fingerprint

import "strings"

// recogniser finds one kind of thing that varies: the place behind it, or 0.
type recogniser struct {
	// when is what the chunk has to have: any of these, or nothing in particular.
	when  chars
	finds func(a *alike) int
}

// begun are the recognisers of what varies where a word begins. The first one that
// finds something counts.
var begun = []recogniser{
	{hasColon, (*alike).url},
	{hasColon, (*alike).ipv6},
	{hasColon, (*alike).drive},
	{hasSign, (*alike).uuid},
	{hasSign, (*alike).mac},
	{hasAt, (*alike).email},
	{hasSlash | hasDot | hasColon, unjoined((*alike).relative)},
	{hasSlash | hasDot | hasColon, unjoined((*alike).host)},
	{0, (*alike).longToken},
}

// unjoined finds nothing where the word goes on from one before.
func unjoined(finds func(a *alike) int) func(a *alike) int {
	return func(a *alike) int {
		if strings.ContainsRune("._-/\\@$", rune(a.before())) {
			return 0
		}
		return finds(a)
	}
}

// longToken is a token where the chunk is long enough for one.
func (a *alike) longToken() int {
	if a.chunkEnd-a.at >= 16 && a.tokenStart() {
		return a.token()
	}
	return 0
}

// recognise passes over what varies as a whole, if it begins here.
func (a *alike) recognise(c byte) bool {
	end := 0
	switch {
	case isQuote(c) || c == 0xe2 || c == 0xc2:
		end = a.quoted()
	case c == '{' || c == '[':
		if end = a.snippet(); end == 0 && c == '[' {
			end = a.inBrackets()
		}
	case c == ':':
		end = a.ipv6()
	case c == '/' || c == '.' || c == '~' || c == '\\' || c == '$':
		end = a.path(c)
	case c == '+' || c == '(':
		end = a.phone(c)
	case isWord(c) && !isWord(a.before()):
		end = a.begins()
	}
	if end > 0 {
		a.at = end
	}
	return end > 0
}

// begins asks the recognisers where a word begins. What is in the chunk says which:
// most words are only words.
func (a *alike) begins() int {
	has := a.look()
	if has&^(hasLower|hasUpper) == 0 {
		if a.resolves() {
			return a.host()
		}
		return 0
	}
	for i := range begun {
		if r := &begun[i]; r.when == 0 || has&r.when != 0 {
			if end := r.finds(a); end > 0 {
				return end
			}
		}
	}
	return 0
}
