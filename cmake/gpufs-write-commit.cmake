# cmake -DSOURCE=<folder> -DOUTPUT=<file> -P: writes a source file with the commit of the folder, if
# it is another one than the file has. Each build runs it.
find_program(git git)
set(commit unknown)
if(git)
  execute_process(COMMAND ${git} -C ${SOURCE} describe --always --exclude=* --abbrev=12
      --dirty=-modified
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    set(commit ${found})
  endif()
endif()
set(text "extern char const gpufs_commit[];\nchar const gpufs_commit[] = \"${commit}\";\n")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
