# The R kernel (see kernels/PROTOCOL.md): cells come as text that ends in a NUL, by descriptor 5; frames leave by 6. R
# itself cannot use an inherited socket, so two processes pass the bytes on (see code_language.c).

.osb <- new.env()

local({
	input <- file("/dev/fd/5", "rb", blocking = TRUE, raw = TRUE)
	output <- file("/dev/fd/6", "wb", blocking = TRUE, raw = TRUE)

	quote_json <- function(text) {
		text <- enc2utf8(paste(text, collapse = "\n"))
		text <- gsub("\\", "\\\\", text, fixed = TRUE)
		text <- gsub("\"", "\\\"", text, fixed = TRUE)
		text <- gsub("\n", "\\n", text, fixed = TRUE)
		text <- gsub("\r", "\\r", text, fixed = TRUE)
		text <- gsub("\t", "\\t", text, fixed = TRUE)
		paste0("\"", gsub("[\001-\037]", " ", text), "\"")
	}

	send <- function(json) {
		bytes <- charToRaw(json)
		writeBin(length(bytes), output, size = 4, endian = "big")
		writeBin(bytes, output)
		flush(output)
	}

	receive <- function() {
		bytes <- raw(4096)
		n <- 0L
		repeat {
			byte <- readBin(input, "raw", 1)
			if (length(byte) == 0) quit("no", 0, FALSE)
			if (byte == as.raw(0)) break
			n <- n + 1L
			if (n > length(bytes)) bytes <- c(bytes, raw(length(bytes)))
			bytes[n] <- byte
		}
		text <- rawToChar(bytes[seq_len(n)])
		Encoding(text) <- "UTF-8"
		text
	}

	cut_text <- function(text) {
		if (nchar(text, "bytes") <= 1048576) return(text)
		paste0(substr(text, 1, 262144), "\n... (cut: ", nchar(text), " characters in all)")
	}

	shown <- function(value) paste(utils::capture.output(print(value)), collapse = "\n")

	result <- function(value, count) {
		html <- ""
		if (is.data.frame(value) && exists("kable", mode = "function"))
			html <- paste0(",\"text/html\":", quote_json(kable(value, "html")))
		send(paste0("{\"op\":\"result\",\"count\":", count, ",\"data\":{\"text/plain\":",
			quote_json(cut_text(shown(value))), html, "}}"))
	}

	failed <- function(name, words, lines) {
		lines <- paste(vapply(lines, quote_json, ""), collapse = ",")
		send(paste0("{\"op\":\"error\",\"ename\":", quote_json(name), ",\"evalue\":", quote_json(words),
			",\"traceback\":[", lines, "]}"))
	}

	# Plots go to a file each cell, and from there to the client.
	plots <- tempfile("plot")
	options(device = function(...) grDevices::svg(paste0(plots, "%03d.svg"), onefile = FALSE), warn = 1)
	show_plots <- function() {
		while (grDevices::dev.cur() > 1) grDevices::dev.off()
		for (file in sort(Sys.glob(paste0(plots, "*.svg")))) {
			text <- paste(readLines(file, warn = FALSE), collapse = "\n")
			unlink(file)
			if (nchar(text, "bytes") <= 2097152)
				send(paste0("{\"op\":\"display\",\"data\":{\"text/plain\":\"(a plot)\",\"image/svg+xml\":",
					quote_json(text), "}}"))
		}
	}

	run <- function(code, count) {
		cells <- parse(text = code, keep.source = FALSE)
		for (i in seq_along(cells)) {
			value <- withVisible(eval(cells[[i]], globalenv()))
			if (!value$visible) next
			if (i < length(cells)) print(value$value)
			else { flush(stdout()); result(value$value, count) }
		}
	}

	.osb$serve <- function() {
		count <- 0L
		send(paste0("{\"op\":\"ready\",\"language\":\"r\",\"version\":\"", getRversion(), "\"}"))
		repeat {
			code <- tryCatch(receive(), interrupt = function(e) NULL)
			if (is.null(code)) next
			count <- count + 1L
			tryCatch({
				run(code, count)
				show_plots()
			}, interrupt = function(e) failed("KeyboardInterrupt", "interrupted", "interrupted"),
			error = function(e) {
				call <- paste(deparse(conditionCall(e)), collapse = " ")
				ours <- call == "NULL" || grepl("cells[[i]]", call, fixed = TRUE) || grepl("text = code", call, fixed = TRUE)
				where <- if (ours) "" else paste0(" in ", call)
				words <- conditionMessage(e)
				failed("Error", words, c(paste0("Error", where, ": ", words)))
			})
			while (sink.number() > 0) sink()
			flush(stdout())
			flush(stderr())
			send(paste0("{\"op\":\"done\",\"count\":", count, "}"))
		}
	}
})

.osb$serve()
