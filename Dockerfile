# The package and the command absa, with the local page as the default command. See docs/how-to/serving.md.
#   docker build -t absa .
#   docker run --rm absa analyze "The battery is great but the screen is dim."
#   docker run --rm -p 127.0.0.1:8484:8484 -e ABSA_TOKEN=... absa
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir -c constraints.txt '.[postgres,mcp]'

FROM python:3.12-slim
RUN useradd --create-home absa
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1
USER absa
WORKDIR /home/absa
EXPOSE 8484
ENTRYPOINT ["absa"]
# ABSA_TOKEN must be set: other machines can reach the page.
CMD ["view", "--host", "0.0.0.0"]
