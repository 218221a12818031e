package data

import "strings"

// separator stands alone on a line between the documents of a plain text file.
const separator = "<|endoftext|>"

// parseText splits plain text at separator lines. A text without any is one document,
// kept as it is; else the line ends around the separators are not part of the text.
func parseText(text string) ([]Document, error) {
	var docs []Document
	at, line := 0, 0
	start, startLine := 0, 1 // of the document being read
	for s := range strings.Lines(text) {
		line++
		if strings.TrimSpace(s) == separator {
			docs = appendPart(docs, text[start:at], startLine)
			start, startLine = at+len(s), line+1
		}
		at += len(s)
	}
	if start == 0 && strings.TrimSpace(text) != "" {
		return []Document{{Text: text, Line: 1}}, nil
	}
	return appendPart(docs, text[start:], startLine), nil
}

// appendPart appends the text between two separators, unless it is blank.
func appendPart(docs []Document, part string, line int) []Document {
	if strings.TrimSpace(part) == "" {
		return docs
	}
	text := strings.TrimLeft(part, "\r\n")
	line += strings.Count(part[:len(part)-len(text)], "\n")
	return append(docs, Document{Text: strings.TrimRight(text, "\r\n"), Line: line})
}
